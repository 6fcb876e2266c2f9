package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// answerTimeout is how long to wait for answers that do not come: to a probe, or to the last requests of a phase.
const answerTimeout = time.Minute

// phase is one stretch of load. Its warm-up is not measured.
type phase struct {
	warmUp, measure time.Duration
	rate            float64 // requests a second; 0 is unpaced: every worker asks again as soon as it is answered
}

// load sends one scenario's requests to one server.
type load struct {
	server   *server
	inFlight int // on each connection
	requests [][]byte
	want     ratelimit.RateLimitResponse_Code
	deadline time.Duration // of each request, from when it is sent; 0: none
}

// run sends requests for one phase, which lasts for longer where the machine stood still through all of it. A failed
// call, or verdicts that are not the scenario's, fail it.
func (l *load) run(ctx context.Context, p phase) (sample, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	start := time.Now()
	schedule := &schedule{start: start, from: start.Add(p.warmUp), rate: p.rate}
	overdue := time.AfterFunc(p.warmUp+p.measure+answerTimeout, func() {
		fail(fmt.Errorf("requests are unanswered %s after the last was sent", answerTimeout))
	})
	defer overdue.Stop()

	var running sync.WaitGroup
	workers := make([]*worker, l.inFlight*len(l.server.conns))
	for i := range workers {
		w := &worker{load: l, conn: l.server.conns[i%len(l.server.conns)], first: i * len(l.requests) / len(workers)}
		workers[i] = w
		running.Go(func() {
			if err := w.run(ctx, schedule); err != nil {
				fail(err)
			}
		})
	}
	before, err := l.read(ctx, schedule.from, schedule)
	after := before
	for until := schedule.from; err == nil && (after.answered == before.answered || schedule.measured.Load() == 0); {
		until = until.Add(p.measure)
		after, err = l.read(ctx, until, schedule)
	}
	schedule.over.Store(true)
	if err != nil {
		fail(err)
	}
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		return sample{}, err
	}
	return newSample(before, after, workers)
}

// reading is how far a server has come.
type reading struct {
	at       time.Time
	cpu      time.Duration
	store    time.Duration // CPU of the store behind the server; 0 without one
	answered uint64
	timedOut uint64
}

// read waits until the given moment, then reads the CPU clocks of the server and its store and the count of answers,
// one right after the other.
func (l *load) read(ctx context.Context, at time.Time, s *schedule) (reading, error) {
	select {
	case <-time.After(time.Until(at)):
	case <-ctx.Done():
		return reading{}, context.Cause(ctx)
	}
	cpu, err := l.server.cpu()
	var store time.Duration
	var storeErr error
	if l.server.store != nil {
		store, storeErr = l.server.store.cpu()
	}
	r := reading{at: time.Now(), cpu: cpu, store: store, answered: s.answered.Load(), timedOut: s.timedOut.Load()}
	return r, errors.Join(err, storeErr)
}

// worker keeps one request in flight.
type worker struct {
	load  *load
	conn  *grpc.ClientConn
	first int // which request it begins with

	latencies, late []time.Duration // of the measured requests; late only if they are paced
	wrong           int             // of them, those with another verdict than want
	wrongVerdict    ratelimit.RateLimitResponse_Code
}

// ask sends a request, and reports whether it was answered before its deadline.
func (w *worker) ask(ctx context.Context, request []byte, reply *[]byte) (answered bool, err error) {
	asking := ctx
	if w.load.deadline > 0 {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeout(ctx, w.load.deadline)
		defer cancel()
	}
	err = w.conn.Invoke(asking, ratelimit.RateLimitService_ShouldRateLimit_FullMethodName, request, reply,
		grpc.ForceCodecV2(rawCodec{}))
	if w.load.deadline > 0 && ctx.Err() == nil && status.Code(err) == codes.DeadlineExceeded {
		return false, nil
	}
	return err == nil, err
}

func (w *worker) run(ctx context.Context, s *schedule) error {
	var reply []byte
	for i := w.first; ; i++ {
		due := s.next(time.Now())
		time.Sleep(time.Until(due))
		if s.over.Load() {
			return nil
		}
		sent := time.Now()
		answered, err := w.ask(ctx, w.load.requests[i%len(w.load.requests)], &reply)
		if err != nil {
			return err
		}
		if !answered {
			s.timedOut.Add(1)
			continue
		}
		done := time.Now()
		s.answered.Add(1)
		if due.Before(s.from) {
			continue
		}
		s.measured.Add(1)
		w.latencies = append(w.latencies, done.Sub(due))
		if s.rate > 0 {
			w.late = append(w.late, sent.Sub(due))
		}
		if v := verdict(reply); v != w.load.want {
			w.wrong++
			w.wrongVerdict = v
		}
	}
}

// schedule says when requests are due, and counts the answers. It is safe for concurrent use.
type schedule struct {
	start, from time.Time // from: end of the warm-up
	rate        float64
	tickets     atomic.Int64

	answered, timedOut atomic.Uint64
	measured           atomic.Uint64 // of those that were due after the warm-up
	over               atomic.Bool   // nothing is sent any more
}

// next returns the moment at which the caller's next request is due: now if unpaced, otherwise the next on a grid that
// does not wait for answers. A request that the caller comes too late for is still due when it was, so a slow answer
// counts against all requests that queue behind it.
func (s *schedule) next(now time.Time) time.Time {
	if s.rate == 0 {
		return now
	}
	n := s.tickets.Add(1) - 1
	return s.start.Add(time.Duration(float64(n) / s.rate * float64(time.Second)))
}
