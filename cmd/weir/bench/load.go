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
)

// patience is how long to wait for answers that do not come: to a probe, or to the last requests of a phase.
const patience = time.Minute

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
}

// run sends requests for one phase. A failed call, or verdicts that are not the scenario's, fail it.
func (l *load) run(ctx context.Context, p phase) (sample, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	schedule := newSchedule(time.Now(), p)
	overdue := time.AfterFunc(p.warmUp+p.measure+patience, func() {
		fail(fmt.Errorf("requests are unanswered %s after the last was sent", patience))
	})
	defer overdue.Stop()

	var answered atomic.Uint64
	var running sync.WaitGroup
	workers := make([]*worker, l.inFlight*len(l.server.conns))
	for i := range workers {
		w := &worker{
			conn:     l.server.conns[i%len(l.server.conns)],
			requests: l.requests,
			first:    i * len(l.requests) / len(workers),
			want:     l.want,
		}
		workers[i] = w
		running.Go(func() {
			if err := w.run(ctx, schedule, &answered); err != nil {
				fail(err)
			}
		})
	}
	before, errBefore := l.read(ctx, schedule.from, &answered)
	after, errAfter := l.read(ctx, schedule.until, &answered)
	if err := errors.Join(errBefore, errAfter); err != nil {
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
	store    time.Duration // CPU of the Redis behind the server; 0 without one
	answered uint64
}

// read waits until the given moment, then reads the CPU clocks of the server and its Redis and the count of answers,
// one right after the other.
func (l *load) read(ctx context.Context, at time.Time, answered *atomic.Uint64) (reading, error) {
	select {
	case <-time.After(time.Until(at)):
	case <-ctx.Done():
		return reading{}, context.Cause(ctx)
	}
	cpu, err := l.server.cpu()
	store, storeErr := l.server.store.cpu()
	r := reading{at: time.Now(), cpu: cpu, store: store, answered: answered.Load()}
	return r, errors.Join(err, storeErr)
}

// worker keeps one request in flight.
type worker struct {
	conn     *grpc.ClientConn
	requests [][]byte
	first    int // which request it begins with
	want     ratelimit.RateLimitResponse_Code

	latencies, late []time.Duration // of the measured requests; late only if they are paced
	wrong           int             // of them, those with another verdict than want
	wrongVerdict    ratelimit.RateLimitResponse_Code
}

func (w *worker) run(ctx context.Context, s *schedule, answered *atomic.Uint64) error {
	raw := grpc.ForceCodecV2(rawCodec{})
	var reply []byte
	for i := w.first; ; i++ {
		due, more := s.next(time.Now())
		if !more {
			return nil
		}
		time.Sleep(time.Until(due))
		sent := time.Now()
		request := w.requests[i%len(w.requests)]
		err := w.conn.Invoke(ctx, ratelimit.RateLimitService_ShouldRateLimit_FullMethodName, request, &reply, raw)
		if err != nil {
			return err
		}
		done := time.Now()
		answered.Add(1)
		if due.Before(s.from) {
			continue
		}
		w.latencies = append(w.latencies, done.Sub(due))
		if s.rate > 0 {
			w.late = append(w.late, sent.Sub(due))
		}
		if v := verdict(reply); v != w.want {
			w.wrong++
			w.wrongVerdict = v
		}
	}
}

// schedule says when requests are due. It is safe for concurrent use.
type schedule struct {
	start, from, until time.Time // from: end of the warm-up; nothing is due at until or later
	rate               float64
	tickets            atomic.Int64
}

func newSchedule(start time.Time, p phase) *schedule {
	from := start.Add(p.warmUp)
	return &schedule{start: start, from: from, until: from.Add(p.measure), rate: p.rate}
}

// next returns the moment at which the caller's next request is due: now if unpaced, otherwise the next on a grid that
// does not wait for answers. A request that the caller comes too late for is still due when it was, so a slow answer
// counts against all requests that queue behind it. It reports false when the phase is over.
func (s *schedule) next(now time.Time) (due time.Time, more bool) {
	if s.rate == 0 {
		return now, now.Before(s.until)
	}
	n := s.tickets.Add(1) - 1
	due = s.start.Add(time.Duration(float64(n) / s.rate * float64(time.Second)))
	return due, due.Before(s.until)
}
