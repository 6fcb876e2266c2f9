package simulatecmd

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/memory"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// request is one request of the traffic. Simulations share its descriptors.
type request struct {
	at          time.Time
	domain      string
	descriptors []descriptors.Descriptor
	hits        uint32 // of each descriptor; 0 means 1
}

// text returns the descriptors of the request: user=ann + path=/pay.
func (r *request) text() string {
	texts := make([]string, len(r.descriptors))
	for i, d := range r.descriptors {
		texts[i] = d.String()
	}
	return strings.Join(texts, " + ")
}

// traffic calls yield with requests in the order of their times, and returns the first error.
type traffic func(yield func(request) error) error

// simulation is a limiter over a separate memory store, on the clock of the traffic, with one configuration and,
// optionally, another algorithm for all its limits.
type simulation struct {
	name    string
	limiter *limit.Limiter
	store   *store
	call    limit.Call
	results results
	over    []bool // of each request of the last batch: it was denied
}

// newSimulation returns a simulation, which must be closed. An algorithm of 0 means the algorithm of each limit.
func newSimulation(name string, config *descriptors.Config, a descriptors.Algorithm) *simulation {
	s := &simulation{name: name, store: newStore(config, a), results: newResults()}
	s.store.Store = memory.Open(memory.Config{MaxKeys: math.MaxInt, Now: func() time.Time { return time.UnixMicro(s.store.clock.Load()) }})
	s.limiter = limit.New(s.store, limit.Options{Algorithm: descriptors.SlidingWindow, Unrecorded: true}, hits.New(0))
	s.limiter.Apply(config)
	return s
}

// batchSize is how many requests one simulation decides before the next one decides the same requests.
const batchSize = 4096

// run has all simulations decide the traffic, in batches, and calls each with every decided batch. If ctx ends, run
// returns its error; the requests until then are decided.
func run(ctx context.Context, t traffic, each func([]request), all ...*simulation) error {
	batch := make([]request, 0, batchSize)
	decide := func() error {
		errs := make([]error, len(all))
		var deciding sync.WaitGroup
		for i, s := range all {
			deciding.Go(func() { errs[i] = s.decide(batch) })
		}
		deciding.Wait()
		each(batch)
		batch = batch[:0]
		if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
			return errs[i]
		}
		return nil
	}
	err := t(func(r request) error {
		if batch = append(batch, r); len(batch) < batchSize {
			return nil
		}
		return cmp.Or(decide(), ctx.Err())
	})
	if err == nil {
		err = decide()
	}
	return err
}

// decide decides requests, at their times.
func (s *simulation) decide(batch []request) error {
	s.over = s.over[:0]
	for i := range batch {
		r := &batch[i]
		s.call.Reset()
		s.call.Domain, s.call.Hits, s.call.At = r.domain, r.hits, r.at
		for _, d := range r.descriptors {
			added := s.call.AddDescriptor()
			added.Entries = append(added.Entries, d...)
		}
		s.store.clock.Store(r.at.UnixMicro())
		s.store.checks = s.store.checks[:0]
		if err := s.limiter.Decide(context.Background(), &s.call); err != nil {
			return err
		}
		s.results.add(r, &s.call, s.store.checks)
		s.over = append(s.over, s.call.Result == limit.OverLimit)
	}
	return nil
}

// store is a memory store that records the limiter's checks, and can count by another algorithm.
type store struct {
	*memory.Store
	clock     atomic.Int64                               // Unix microseconds; the store's sweep reads it too
	algorithm descriptors.Algorithm                      // 0: that of each limit
	converted map[*descriptors.Limit][]descriptors.Limit // by the first limit of a rule, its limits with the algorithm
	checks    []backend.Check                            // the checks of the request, without refunds
	room      []backend.Check
}

func newStore(config *descriptors.Config, a descriptors.Algorithm) *store {
	s := &store{algorithm: a, converted: make(map[*descriptors.Limit][]descriptors.Limit)}
	for _, r := range config.Rules() {
		if a != 0 && len(r.Limits) > 0 {
			s.converted[&r.Limits[0]] = convertLimits(r.Limits, a)
		}
	}
	return s
}

// Decide implements backend.Counter.
func (s *store) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if checks[0].Op != backend.Refund {
		s.checks = append(s.checks, checks...)
	}
	if s.algorithm != 0 {
		s.room = append(s.room[:0], checks...)
		for i := range checks {
			if s.room[i].Limits = s.converted[&checks[i].Limits[0]]; s.room[i].Limits == nil { // others replace a part of the rule
				s.room[i].Limits = convertLimits(checks[i].Limits, s.algorithm)
			}
		}
		checks = s.room
	}
	return s.Store.Decide(ctx, checks, out)
}

// convertLimits returns limits with another algorithm. Of limits that would share a state it returns the smallest. If a
// limit cannot have the algorithm, it returns all unchanged.
func convertLimits(from []descriptors.Limit, a descriptors.Algorithm) (to []descriptors.Limit) {
	for i := range from {
		l, err := descriptors.NewLimit(from[i].Requests, from[i].Unit, from[i].Multiplier, a, 0)
		if err != nil {
			return from
		}
		if from[i].Algorithm == a {
			l = from[i]
		}
		same := slices.IndexFunc(to, func(other descriptors.Limit) bool { return other.SameState(&l) })
		switch {
		case same < 0:
			to = append(to, l)
		case l.Capacity() < to[same].Capacity():
			to[same] = l
		}
	}
	return to
}

// changes reports whether a limit of a configuration has another algorithm.
func changes(config *descriptors.Config, a descriptors.Algorithm) bool {
	return slices.ContainsFunc(config.Rules(), func(r *descriptors.Rule) bool { return differs(r, a) })
}

// differs reports whether a limit of a rule has another algorithm.
func differs(r *descriptors.Rule, a descriptors.Algorithm) bool {
	return slices.ContainsFunc(r.Limits, func(l descriptors.Limit) bool { return l.Algorithm != a })
}
