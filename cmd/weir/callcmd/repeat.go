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

// repeatedCalls makes calls at --rate, one after the other, and has their results so far.
type repeatedCalls struct {
	*client
	out     io.Writer
	begin   time.Time
	printed time.Duration // from begin until the last line was written

	ok, over, failed int
	latencies        []time.Duration // of the answered calls
	last             callResult
	failure          error // of the first call that failed
}

// callRepeatedly calls until --for is over or ctx ends. It prints each answer as JSON, or progress and latencies as text.
func (c *client) callRepeatedly(ctx context.Context, out io.Writer) error {
	c.connect(ctx)
	calls := repeatedCalls{client: c, out: out, begin: time.Now()}
	for {
		if err := calls.call(ctx); err != nil {
			return err
		}
		due := time.Duration(float64(calls.sent()) / c.Rate * float64(time.Second)) // however long earlier calls took
		if c.For > 0 {
			due = min(due, c.For)
		}
		if !wait.For(ctx, due-time.Since(calls.begin)) || c.For > 0 && time.Since(calls.begin) >= c.For {
			return calls.end()
		}
	}
}

func (r *repeatedCalls) sent() int { return r.ok + r.over + r.failed }

// call calls once, and prints a line for the first call, for each change between OK and over, and each second. The end of
// ctx does not cancel a call.
func (r *repeatedCalls) call(ctx context.Context) error {
	before := r.last
	r.last = r.client.call(context.WithoutCancel(ctx))
	result := &r.last
	switch {
	case result.err != nil:
		r.failed++
		r.failure = cmp.Or(r.failure, r.describeError(result.err))
	case result.denied():
		r.over++
	default:
		r.ok++
	}
	if result.err == nil {
		r.latencies = append(r.latencies, result.latency)
	}
	now := time.Since(r.begin)
	switch {
	case r.JSON && result.err == nil:
		return r.print(r.out, result)
	case !r.JSON && (r.sent() == 1 || result.denied() != before.denied() || now-r.printed >= time.Second):
		r.printed = now
		word := paintCode(terminal.PaintFor(r.out), result.resp.GetOverallCode())
		fmt.Fprintf(r.out, "%5.1fs  %s  %s  (%s)\n", now.Seconds(), word, r.summary(result), r.counts())
	}
	return nil
}

func (r *repeatedCalls) counts() string {
	return fmt.Sprintf("%d sent: %d OK, %d over, %d errors", r.sent(), r.ok, r.over, r.failed)
}

// end prints the totals and the latencies. It returns the error of the first call that failed, or else the last verdict.
func (r *repeatedCalls) end() error {
	if !r.JSON {
		slices.Sort(r.latencies)
		fmt.Fprintf(r.out, "\n%s, in %.1fs\n", r.counts(), time.Since(r.begin).Seconds())
		if last := len(r.latencies) - 1; last >= 0 {
			fmt.Fprintf(r.out, "latency  p50 %s   p99 %s   max %s\n", milliseconds(r.latencies[last/2]),
				milliseconds(r.latencies[last*99/100]), milliseconds(r.latencies[last]))
		}
	}
	switch {
	case r.failure != nil:
		return fmt.Errorf("%d of %d calls failed; the first: %w", r.failed, r.sent(), r.failure)
	case r.last.unknownDomain():
		return r.unknownDomainError()
	case r.over > 0:
		return terminal.ExitNo
	}
	return nil
}
