package callcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/cmd/weir/wait"
)

// watch makes calls at a rate, one after the other, and holds what came of them so far.
type watch struct {
	*client
	out     io.Writer
	begin   time.Time
	printed time.Duration // when the last line was written, after begin

	ok, over, failed int
	latencies        []time.Duration // of the calls that were answered
	last             outcome
	failure          error // the first
}

// watch calls until its time is over or ctx ends, and prints answers as JSON, or how it goes, and the latencies.
func (c *client) watch(ctx context.Context, out io.Writer) error {
	c.connect(ctx)
	w := watch{client: c, out: out, begin: time.Now()}
	for {
		if err := w.call(ctx); err != nil {
			return err
		}
		due := time.Duration(float64(w.sent()) / c.Rate * float64(time.Second)) // whatever earlier calls took
		if c.For > 0 {
			due = min(due, c.For)
		}
		if !wait.For(ctx, due-time.Since(w.begin)) || c.For > 0 && time.Since(w.begin) >= c.For {
			return w.end()
		}
	}
}

func (w *watch) sent() int { return w.ok + w.over + w.failed }

// call calls once, and prints a line for the first call, for each change between OK and over, and each second. A call that
// is under way when ctx ends is not cut short.
func (w *watch) call(ctx context.Context) error {
	before := w.last
	w.last = w.client.call(context.WithoutCancel(ctx))
	o := &w.last
	switch {
	case o.err != nil:
		w.failed++
		w.failure = cmp.Or(w.failure, w.describeError(o.err))
	case o.denied():
		w.over++
	default:
		w.ok++
	}
	if o.err == nil {
		w.latencies = append(w.latencies, o.latency)
	}
	now := time.Since(w.begin)
	switch {
	case w.JSON && o.err == nil:
		return w.print(w.out, o)
	case !w.JSON && (w.sent() == 1 || o.denied() != before.denied() || now-w.printed >= time.Second):
		w.printed = now
		word := paintCode(terminal.PaintFor(w.out), o.resp.GetOverallCode())
		fmt.Fprintf(w.out, "%5.1fs  %s  %s  (%s)\n", now.Seconds(), word, w.summary(o), w.counts())
	}
	return nil
}

func (w *watch) counts() string {
	return fmt.Sprintf("%d sent: %d OK, %d over, %d errors", w.sent(), w.ok, w.over, w.failed)
}

// end prints the totals and the latencies. Its error is the first call's that failed, or what the last answer says.
func (w *watch) end() error {
	if !w.JSON {
		slices.Sort(w.latencies)
		fmt.Fprintf(w.out, "\n%s, in %.1fs\n", w.counts(), time.Since(w.begin).Seconds())
		if last := len(w.latencies) - 1; last >= 0 {
			fmt.Fprintf(w.out, "latency  p50 %s   p99 %s   max %s\n", milliseconds(w.latencies[last/2]),
				milliseconds(w.latencies[last*99/100]), milliseconds(w.latencies[last]))
		}
	}
	switch {
	case w.failure != nil:
		return fmt.Errorf("%d of %d calls failed, the first so: %w", w.failed, w.sent(), w.failure)
	case w.last.unknownDomain():
		return w.unknownDomainError()
	case w.over > 0:
		return terminal.No
	}
	return nil
}
