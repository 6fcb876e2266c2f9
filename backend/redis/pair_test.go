package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/script"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

// openedPair is a pair on one server each, both of which tell the time that now has; nil: their own.
func openedPair(t *testing.T, now *atomic.Int64, main, perSecond topology.Config) Counters {
	t.Helper()
	return PerSecond(opened(t, main, now), opened(t, perSecond, now))
}

// limitsPer gives a limit of n for each of the units, 60 of them long: Redis forgets what counts for a second only
// while a busy machine still tests.
func limitsPer(t *testing.T, n uint64, units ...descriptors.Unit) (limits []descriptors.Limit) {
	for _, u := range units {
		limits = append(limits, backendtest.NewLimit(t, n, u, 60, descriptors.FixedWindow, 0))
	}
	return limits
}

func TestSecondRedisGetsOnlyPerSecondLimits(t *testing.T) {
	t.Parallel()
	servers := []*redistest.Server{redistest.Single(t), redistest.Single(t)}
	mixed := func(on int) byFormat {
		return openedMixed(t, topology.Config{URL: servers[on].Addr}, new(atomic.Int64))
	}
	p := PerSecond(mixed(0), mixed(1))
	for key, c := range map[string]struct {
		limits []descriptors.Limit
		at     int
	}{
		"second":            {limitsPer(t, 10, descriptors.Second), 1},
		"minute":            {limitsPer(t, 10, descriptors.Minute), 0},
		"second and minute": {limitsPer(t, 10, descriptors.Second, descriptors.Minute), 0},
		"50 and 30 seconds": {[]descriptors.Limit{
			backendtest.NewLimit(t, 10, descriptors.Second, 50, descriptors.SlidingWindow, 0),
			backendtest.NewLimit(t, 10, descriptors.Second, 30, descriptors.SlidingWindow, 0),
		}, 1},
		"\x00d_second_v_": {[]descriptors.Limit{backendtest.NewLimit(t, 10, descriptors.Second, 1, descriptors.FixedWindow, 0)}, 1},
		"\x00d_hour_v_":   {hourly(t, 10), 0},
	} {
		name := string(script.AppendKey(nil, []byte(key)))
		if stem, plain := strings.CutPrefix(key, "\x00"); plain {
			name = stem + "0" // when its window began
		}
		backendtest.Ask(t, p, backend.Check{Key: []byte(key), Limits: c.limits, Hits: 3})
		for i, server := range servers {
			want := int64(0)
			if i == c.at {
				want = 1
			}
			got, err := server.Client().Exists(t.Context(), name).Result()
			if err != nil || got != want {
				t.Errorf("%q: Redis %d holds %d keys (%v), want %d", key, i, got, err, want)
			}
		}
		counts, err := p.Inspect(t.Context(), []byte(key), c.limits)
		if err != nil || len(counts) != len(c.limits) || counts[0].Hits != 3 {
			t.Errorf("%q: an operator sees %+v, %v; want the 3 hits that were counted", key, counts, err)
		}
	}
	// An override of another unit has the rule's key.
	both := [][]descriptors.Limit{limitsPer(t, 10, descriptors.Second), limitsPer(t, 10, descriptors.Hour)}
	for _, limits := range both {
		backendtest.Ask(t, p, backend.Check{Key: []byte("both"), Limits: limits, Hits: 1})
	}
	if err := p.Reset(t.Context(), []byte("both")); err != nil {
		t.Fatal(err)
	}
	for _, limits := range both {
		if counts, err := p.Inspect(t.Context(), []byte("both"), limits); err != nil || counts[0].Hits != 0 {
			t.Errorf("after a reset %+v, %v; want nothing counted", counts, err)
		}
	}
}

// half is one store of a pair, which decides as a test wants.
type half struct {
	Counters
	decide func(checks []backend.Check, out []backend.Decision) error
}

func (h half) Decide(_ context.Context, checks []backend.Check, out []backend.Decision) error {
	return h.decide(checks, out)
}
func (h half) Reset(context.Context, []byte) error { return h.decide(nil, nil) }
func (h half) Close() error                        { return nil }

func TestBothRedisAreAskedOnceConcurrently(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan []backend.Check, 4), make(chan struct{})
	waits := half{decide: func(checks []backend.Check, _ []backend.Decision) error {
		asked <- checks
		<-answer
		return nil
	}}
	var checks []backend.Check
	for i := range 10 {
		checks = append(checks, backend.Check{Key: fmt.Append(nil, i), Hits: 1,
			Limits: limitsPer(t, 10, []descriptors.Unit{descriptors.Second, descriptors.Hour}[i%2])})
	}
	decided := make(chan error, 1)
	go func() {
		decided <- PerSecond(waits, waits).Decide(t.Context(), checks, make([]backend.Decision, len(checks)))
	}()
	for range 2 {
		if part := <-asked; len(part) != len(checks)/2 {
			t.Errorf("one Redis is asked %d checks of %d while the other one does not answer; want half of them",
				len(part), len(checks))
		}
	}
	close(answer)
	if err := <-decided; err != nil || len(asked) > 0 {
		t.Errorf("%v, and %d Redis were asked again; want each to be asked once for one request", err, len(asked))
	}
}

func TestLostRedisDoesNotStopTheOther(t *testing.T) {
	t.Parallel()
	there := half{decide: func([]backend.Check, []backend.Decision) error { return nil }}
	away := half{decide: func(_ []backend.Check, out []backend.Decision) error {
		for i := range out {
			out[i].Err = ErrUnavailable
		}
		if out == nil {
			return ErrUnavailable
		}
		return nil
	}}
	p := PerSecond(there, away)
	perSecond := backend.Check{Key: []byte("a"), Limits: limitsPer(t, 10, descriptors.Second), Hits: 1}
	perHour := backend.Check{Key: []byte("b"), Limits: limitsPer(t, 10, descriptors.Hour), Hits: 1}
	if err := backend.DecideAll(t.Context(), p, []backend.Check{perHour}, make([]backend.Decision, 1)); err != nil {
		t.Errorf("a limit of the Redis that is there was not decided: %v", err)
	}
	for _, checks := range [][]backend.Check{{perSecond}, {perSecond, perHour}, {perHour, perSecond}} {
		err := backend.DecideAll(t.Context(), p, checks, make([]backend.Decision, len(checks)))
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("the error is %v, want %v", err, ErrUnavailable)
		}
	}
	if err := p.Reset(t.Context(), perHour.Key); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a reset that reached one Redis of two gave %v, want %v", err, ErrUnavailable)
	}
}
