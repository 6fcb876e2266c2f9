package redis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/incr"
	"github.com/weirproxy/weir/backend/redis/script"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

// openedPair is a pair on one server each, both of which tell the time that now has; nil: their own.
func openedPair(t *testing.T, now *atomic.Int64, main, perSecond topology.Config) *Split {
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

func TestOnlyLimitsThatAreAllPerSecondGoToTheSecondRedis(t *testing.T) {
	t.Parallel()
	servers := []*redistest.Server{redistest.Single(t), redistest.Single(t)}
	mixed := func(on int) *Split {
		return openedMixed(t, topology.Config{URL: servers[on].Addr}, new(atomic.Int64), incr.Keys{Jitter: 300})
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
		askOne(t, p, backend.Check{Key: []byte(key), Limits: c.limits, Hits: 3})
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
		askOne(t, p, backend.Check{Key: []byte("both"), Limits: limits, Hits: 1})
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

func TestEachDecisionOfASplitRequestLandsInItsPlace(t *testing.T) {
	t.Parallel()
	p := openedPair(t, new(atomic.Int64), single(t), single(t))
	random := rand.New(rand.NewPCG(1, 1))
	counts := make(map[string]uint64)
	units := []descriptors.Unit{descriptors.Second, descriptors.Hour}
	for round := range 300 {
		checks := make([]backend.Check, 1+random.IntN(2*64))
		want := make([]uint64, len(checks))
		for i := range checks {
			u := units[random.IntN(len(units))]
			key := fmt.Sprint(u, random.IntN(20))
			checks[i] = backend.Check{Key: []byte(key), Limits: limitsPer(t, 1_000_000, u), Hits: 1 + random.Uint64N(5)}
			want[i] = counts[key]
			counts[key] += checks[i].Hits
		}
		out := make([]backend.Decision, len(checks))
		if err := backend.DecideAll(t.Context(), p, checks, out); err != nil {
			t.Fatal(err)
		}
		for i := range out {
			if out[i].Before != want[i] || !out[i].Allowed {
				t.Fatalf("round %d, check %d of %d, key %s: %+v; want it allowed with %d before it, those of the same "+
					"request in order", round, i, len(checks), checks[i].Key, out[i], want[i])
			}
		}
	}
}

func TestBothRedisAreAskedAtTheSameTimeAndOnce(t *testing.T) {
	t.Parallel()
	servers := []*redistest.Server{redistest.Single(t), redistest.Single(t)}
	var proxies []*redistest.FaultProxy
	for _, s := range servers {
		proxies = append(proxies, redistest.Proxy(t, s.Addr))
	}
	p := openedPair(t, nil, topology.Config{URL: proxies[0].Addr}, topology.Config{URL: proxies[1].Addr})
	var checks []backend.Check
	for i := range 10 {
		checks = append(checks, backend.Check{Key: fmt.Append(nil, i), Hits: 1,
			Limits: limitsPer(t, 10, []descriptors.Unit{descriptors.Second, descriptors.Hour}[i%2])})
	}
	calls := func(i int) int { return proxies[i].Requests("fcall") + proxies[i].Requests("evalsha") }
	before := []int{calls(0), calls(1)}
	asked := func(i int) int { return calls(i) - before[i] }
	for _, s := range servers {
		s.Stop()
	}
	decided := make(chan error, 1)
	go func() { decided <- backend.DecideAll(t.Context(), p, checks, make([]backend.Decision, len(checks))) }()
	wait(t, "both are asked while neither answers", func() bool { return asked(0) > 0 && asked(1) > 0 })
	for _, s := range servers {
		s.Cont()
	}
	if err := <-decided; err != nil {
		t.Fatal(err)
	}
	for i := range proxies {
		if got := asked(i); got != 1 {
			t.Errorf("Redis %d was asked %d times for one request, want once", i, got)
		}
	}
}

func TestOneRedisOfAPairThatIsAwayIsNamed(t *testing.T) {
	t.Parallel()
	servers := []*redistest.Server{redistest.Single(t), redistest.Single(t)}
	p := openedPair(t, nil, topology.Config{URL: servers[0].Addr}, topology.Config{URL: servers[1].Addr})
	servers[1].Kill()
	perSecond := backend.Check{Key: []byte("a"), Limits: limitsPer(t, 10, descriptors.Second), Hits: 1}
	perHour := backend.Check{Key: []byte("b"), Limits: limitsPer(t, 10, descriptors.Hour), Hits: 1}
	decide := func(checks ...backend.Check) error {
		return backend.DecideAll(t.Context(), p, checks, make([]backend.Decision, len(checks)))
	}
	if err := decide(perHour); err != nil {
		t.Errorf("a limit of the Redis that is there was not decided: %v", err)
	}
	for _, checks := range [][]backend.Check{{perSecond}, {perSecond, perHour}, {perHour, perSecond}} {
		err := decide(checks...)
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "limits per second: ") ||
			!strings.Contains(err.Error(), servers[1].Addr) {
			t.Errorf("the error is %v, want %v with which Redis it is", err, ErrUnavailable)
		}
	}
	if err := p.Reset(t.Context(), perHour.Key); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a reset that reached one Redis of two gave %v, want %v", err, ErrUnavailable)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := decide(perSecond, perHour); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("a closed pair gave %v, want ErrClosed", err)
	}
}
