package callcmd

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/cmd/weir/wait"
)

// callMany calls at a steady rate, or as fast as the service answers, until ctx ends at the latest, and reports.
func (c *client) callMany(ctx context.Context, w io.Writer) error {
	c.connect(ctx)
	report := newReport(c, w)
	report.begin()
	s := schedule{rate: c.Rate, length: c.For, workers: c.Concurrency, start: time.Now()}
	s.call = func(ctx context.Context, n uint64) outcome { return c.call(ctx, c.message(n)) }
	report.follow(s.start, s.run(ctx))
	if ctx.Err() == nil {
		report.Unsent = s.planned() - min(report.Sent, s.planned())
	}
	if err := report.end(time.Since(s.start)); err != nil {
		return err
	}
	switch {
	case report.Failed > 0:
		return terminal.Failed
	case report.last != nil && report.last.metadata(unknownDomain).GetBoolValue():
		return c.unknownDomain()
	case report.Over > 0:
		return terminal.No
	}
	return nil
}

// schedule calls at its rate: call n is due n/rate after the start, whatever earlier calls took, while a worker is free.
type schedule struct {
	rate    float64       // calls a second; 0 calls as soon as a worker is free
	length  time.Duration // 0 goes on until the context ends
	workers int
	start   time.Time
	call    func(ctx context.Context, n uint64) outcome

	next atomic.Uint64
}

const (
	lateness = time.Second           // calls that were due may leave so long after the end: a machine may stumble
	pause    = 10 * time.Millisecond // after a failed call without a rate: to be refused costs no time
)

// run starts the calls. The channel closes when length has passed or ctx has ended, and all calls have been answered.
func (s *schedule) run(ctx context.Context) <-chan outcome {
	results := make(chan outcome, s.workers)
	var workers sync.WaitGroup
	for range s.workers {
		workers.Go(func() { s.work(ctx, results) })
	}
	go func() {
		workers.Wait()
		close(results)
	}()
	return results
}

func (s *schedule) work(ctx context.Context, results chan<- outcome) {
	for {
		n := s.next.Add(1) - 1
		due := s.due(n)
		if s.length > 0 && due >= s.length {
			wait.For(ctx, s.length-time.Since(s.start)) // --for 10s lasts 10 s
			return
		}
		if !wait.For(ctx, due-time.Since(s.start)) || (s.length > 0 && time.Since(s.start) > s.length+lateness) {
			return
		}
		out := s.call(context.WithoutCancel(ctx), n)
		results <- out
		if out.err != nil && s.rate == 0 {
			wait.For(ctx, pause)
		}
	}
}

// due returns when call n should leave, after the start.
func (s *schedule) due(n uint64) time.Duration {
	if s.rate == 0 {
		return time.Since(s.start)
	}
	return time.Duration(float64(n) / s.rate * float64(time.Second))
}

// planned returns the number of calls due within length, 0 if it or the rate is open.
func (s *schedule) planned() uint64 {
	if s.rate == 0 || s.length == 0 {
		return 0
	}
	n := uint64(max(0, s.rate*s.length.Seconds()-2)) // too few, however it is rounded
	for s.due(n) < s.length {
		n++
	}
	return n
}
