package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// callMany asks at a steady rate, or as fast as the service answers, and reports. When ctx ends (Ctrl-C) it stops, and
// reports what it has.
func (c *callCmd) callMany(ctx context.Context, q *question, target *caller) error {
	setup, cancel := context.WithTimeout(ctx, c.Timeout)
	target.connect(setup)
	cancel()

	r := newReporter(c, q)
	r.begin(c)
	s := series{rate: c.Rate, length: c.For, workers: c.Concurrency, start: time.Now()}
	s.ask = func(ctx context.Context, n uint64) outcome {
		ctx, cancel := context.WithTimeout(ctx, c.Timeout)
		defer cancel()
		return target.ask(ctx, q.request(n))
	}
	r.follow(s.start, s.run(ctx))
	t := &r.tally
	if ctx.Err() == nil {
		t.unsent = s.scheduled() - min(t.sent(), s.scheduled())
	}
	if err := r.end(time.Since(s.start)); err != nil {
		return err
	}
	switch {
	case t.failed > 0:
		return exitError
	case t.over > 0:
		return exitOver
	}
	return nil
}

// series calls ask at its rate. The schedule is fixed in advance (call n is due n/rate after the start), so a slow
// answer delays no other call while a worker is free.
type series struct {
	rate    float64       // calls a second; 0 calls as soon as a worker is free
	length  time.Duration // 0 goes on until the context ends
	workers int
	start   time.Time
	ask     func(ctx context.Context, n uint64) outcome

	next atomic.Uint64
}

const (
	// lateness is how long after the end of a series its due calls may still leave: it covers a machine that
	// stumbles, not a service that cannot keep up.
	lateness = time.Second
	// pause follows a failed call of a series without a rate: a refused connection costs no time by itself.
	pause = 10 * time.Millisecond
)

// run starts the series. The channel closes when it is over: length has passed or ctx has ended, and all calls have
// been answered. A call under way is not cut short by ctx.
func (s *series) run(ctx context.Context) <-chan outcome {
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

func (s *series) work(ctx context.Context, results chan<- outcome) {
	for {
		n := s.next.Add(1) - 1
		due := s.due(n)
		if s.length > 0 && due >= s.length {
			sleep(ctx, s.length-time.Since(s.start)) // a series for 10 s takes 10 s
			return
		}
		if !sleep(ctx, due-time.Since(s.start)) || (s.length > 0 && time.Since(s.start) > s.length+lateness) {
			return
		}
		out := s.ask(context.WithoutCancel(ctx), n)
		results <- out
		if out.err != nil && s.rate == 0 {
			sleep(ctx, pause)
		}
	}
}

// due is when call n should leave, after the start.
func (s *series) due(n uint64) time.Duration {
	if s.rate == 0 {
		return time.Since(s.start)
	}
	return time.Duration(float64(n) / s.rate * float64(time.Second))
}

// scheduled is the number of calls due within length, 0 if there is no schedule.
func (s *series) scheduled() uint64 {
	if s.rate == 0 || s.length == 0 {
		return 0
	}
	n := uint64(s.rate * s.length.Seconds())
	for s.due(n) < s.length {
		n++
	}
	for n > 0 && s.due(n-1) >= s.length {
		n--
	}
	return n
}

// sleep waits for d, which may be past, and says whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
