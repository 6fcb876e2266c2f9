package callcmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/cmd/weir/wait"
)

// watch is calls at a rate, one after the other, and what came of them so far.
type watch struct {
	*client
	out   io.Writer
	text  io.Writer // for people: out, or with --json nowhere
	paint terminal.Paint
	begin time.Time

	ok, over, failed int
	latencies        []time.Duration // of the calls that were answered
	last             *outcome        // that was answered; nil before the first
	failure          error           // the first

	printedAt   time.Duration // when the last line about progress was written, after begin
	printedSent int           // and how many calls had been sent then
}

// watch calls until its time is over or ctx ends, and prints answers as JSON, or progress, changes and the latencies.
func (c *client) watch(ctx context.Context, out io.Writer) error {
	c.connect(ctx)
	w := watch{client: c, out: out, text: out, paint: terminal.PaintFor(out), begin: time.Now()}
	if c.JSON {
		w.text = io.Discard
	}
	w.printTitle()
	for {
		if err := w.call(ctx); err != nil {
			return err
		}
		due := time.Duration(float64(w.sent()) / c.Rate * float64(time.Second)) // whatever earlier calls took
		if c.For > 0 {
			due = min(due, c.For)
		}
		more := wait.For(ctx, due-time.Since(w.begin))
		now := time.Since(w.begin)
		if now-w.printedAt >= time.Second {
			w.printProgress(now)
		}
		if !more || c.For > 0 && now >= c.For {
			return w.end()
		}
	}
}

func (w *watch) sent() int { return w.ok + w.over + w.failed }

// call calls once. A call that is under way when ctx ends is not cut short.
func (w *watch) call(ctx context.Context) error {
	o := w.client.call(context.WithoutCancel(ctx))
	if o.err != nil {
		w.failed++
		if w.failure == nil {
			w.failure = w.describe(o.err)
		}
		return nil
	}
	before := w.last
	w.latencies, w.last = append(w.latencies, o.latency), &o
	if o.over() {
		w.over++
	} else {
		w.ok++
	}
	if w.JSON {
		return w.print(w.out, w.last)
	}
	if o.over() != (before != nil && before.over()) {
		word := w.paint.Green("OK again")
		if o.over() {
			word = w.paint.Red("over")
		}
		fmt.Fprintf(w.text, "%5.1fs  %s: %s\n", time.Since(w.begin).Seconds(), word, w.phrase(w.last))
	}
	return nil
}

func (w *watch) printTitle() {
	length := "until Ctrl-C"
	if w.For > 0 {
		length = "for " + w.For.String()
	}
	var what []string
	for _, d := range w.descriptors {
		what = append(what, terminal.Printable(d.String()))
	}
	fmt.Fprintf(w.text, "asking %s about %s %s, %v a second %s\n", w.Addr, terminal.Printable(w.Domain),
		strings.Join(what, " and "), w.Rate, length)
}

func (w *watch) printProgress(now time.Duration) {
	rate := float64(w.sent()-w.printedSent) / (now - w.printedAt).Seconds()
	fmt.Fprintf(w.text, "%5.0fs  %d sent (%.0f/s), %s", now.Seconds(), w.sent(), rate, w.counts())
	if w.last != nil {
		fmt.Fprintf(w.text, "; last: %s", w.phrase(w.last))
	}
	fmt.Fprintln(w.text)
	w.printedAt, w.printedSent = now, w.sent()
}

func (w *watch) counts() string {
	return fmt.Sprintf("%d OK, %d over, %d errors", w.ok, w.over, w.failed)
}

// end prints the totals and the latencies. Its error is the first call's that failed, or what the last answer says.
func (w *watch) end() error {
	took := time.Since(w.begin).Seconds()
	fmt.Fprintf(w.text, "\n%d sent in %.1fs (%.1f/s): %s\n", w.sent(), took, float64(w.sent())/took, w.counts())
	if slices.Sort(w.latencies); len(w.latencies) > 0 {
		quantile := func(q float64) string { return milliseconds(w.latencies[int(q*float64(len(w.latencies)-1))]) }
		fmt.Fprintf(w.text, "latency  p50 %s   p90 %s   p99 %s   max %s\n",
			quantile(0.5), quantile(0.9), quantile(0.99), quantile(1))
	}
	switch {
	case w.failure != nil:
		return fmt.Errorf("%d of %d calls failed, the first so: %w", w.failed, w.sent(), w.failure)
	case w.last.unknownDomain():
		return w.unknownDomain()
	case w.over > 0:
		return terminal.No
	}
	return nil
}
