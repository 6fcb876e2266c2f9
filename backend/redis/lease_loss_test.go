package redis

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

// lost is a key whose state is lost while two replicas count it.
type lost struct {
	*leasing
	server *redistest.Server
	other  *Store // on another server, which does not know the key
}

// losses are the ways to lose a state. A fail-over also changes the clock.
var losses = []struct {
	name string
	loss func(t *testing.T, l *lost)
}{
	{"no loss", func(*testing.T, *lost) {}}, // for comparison
	{"reset by another replica", func(t *testing.T, l *lost) {
		if err := l.weirs[1].guard.Reset(t.Context(), l.key); err != nil {
			t.Fatal(err)
		}
	}},
	{"FLUSHALL", func(t *testing.T, l *lost) {
		if err := l.server.Client().FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}},
	{"restart without data", func(t *testing.T, l *lost) {
		l.server.Restart(t)
		look := []backend.Check{{Key: []byte("restarted"), Limits: l.limits, Op: backend.Look}}
		answered := 0
		process.Eventually(t, "connections from before the restart are gone", func() error {
			if err := backend.DecideAll(t.Context(), l.store, look, make([]backend.Decision, 1)); err != nil {
				answered = 0
				return err
			} else if answered++; answered < 10 {
				return fmt.Errorf("%d looks in a row are answered", answered)
			}
			return nil
		})
	}},
	{"remap to another node", func(_ *testing.T, l *lost) { l.moves(0) }},
	{"fail-over to a clock behind", func(_ *testing.T, l *lost) { l.moves(-300 * time.Millisecond) }},
	{"fail-over to a clock ahead", func(_ *testing.T, l *lost) { l.moves(200 * time.Millisecond) }},
}

// moves gives the key to another server, whose clock differs by shift.
func (l *lost) moves(shift time.Duration) {
	for _, w := range l.weirs {
		w.Store = l.other
	}
	l.shift = shift
	l.passes(0)
}

// rulesThatLease are limits whose last one is the strictest, of a thousand hits.
func rulesThatLease(t *testing.T) map[string][]descriptors.Limit {
	sliding := func(n uint64, u descriptors.Unit) descriptors.Limit {
		return backendtest.NewLimit(t, n, u, 1, descriptors.SlidingWindow, 0)
	}
	fixed := backendtest.NewLimit(t, 1000, descriptors.Hour, 1, descriptors.FixedWindow, 0)
	return map[string][]descriptors.Limit{
		"sliding minute": {sliding(1000, descriptors.Minute)}, "sliding hour": {sliding(1000, descriptors.Hour)},
		"fixed hour": {fixed}, "sliding minute and fixed hour": {sliding(2000, descriptors.Minute), fixed},
	}
}

// TestLeaseOfALostStateSettlesNothing has one replica lease, loses the state, and has another replica lease in the next
// state. The next state must not return the unused hits of the first lease: it never counted them.
func TestLeaseOfALostStateSettlesNothing(t *testing.T) {
	t.Parallel()
	for way, code := range map[string]func() *pipeline.Script{"function": newScript, "script": scriptOnly} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			server, shard := redistest.Single(t), new(atomic.Int64)
			store := openedWith(t, topology.Config{URL: server.Addr}, shard, code())
			other := openedWith(t, start(t, topology.Single), shard, code())
			for name, limits := range rulesThatLease(t) {
				for _, tc := range losses {
					t.Run(name+", "+tc.name, func(t *testing.T) {
						l := &lost{server: server, other: other, leasing: &leasing{t: t, r: rand.New(rand.NewPCG(1, 1)), depth: 2,
							store: store, shard: shard, key: []byte(t.Name()), limits: limits, now: time.UnixMilli(1_796_000_000_500)}}
						l.settlesInto(tc.loss)
					})
				}
			}
		})
	}
}

// settlesInto has one replica settle its lease from before a loss, after another has used up one from after it.
func (l *lost) settlesInto(loss func(*testing.T, *lost)) {
	l.t.Helper()
	l.weirs = []*leasingWeir{l.open(), l.open()}
	here, there := l.weirs[0], l.weirs[1]
	l.passes(0)
	l.count(here, 1)
	l.passes(50 * time.Millisecond)
	loss(l.t, l)
	l.passes(50 * time.Millisecond) // all of it within one bucket
	used := l.count(there, 1)
	leased := there.guard.Stats().LeaseGranted
	if leased == 0 || here.guard.Stats().LeaseGranted == 0 {
		l.t.Fatal("no lease was granted: the test proves nothing")
	}
	used += l.count(there, leased-1)
	l.passes(50 * time.Millisecond)
	used += l.count(here, 100) // it holds fewer, so it settles
	l.passes(1100 * time.Millisecond)
	for more := uint64(1); more > 0; used += more { // until all are denied
		more = l.count(here, 1) + l.count(there, 1)
	}
	if most := l.limits[len(l.limits)-1].Requests; used > most {
		l.t.Errorf("%d hits were used under the new state; want at most %d: settlements took %d hits out of it, of leases of the old state",
			used, most, here.guard.Stats().LeaseReturned)
	}
}

// count asks a weir for hits, at 200 a second, and returns how many it admits.
func (l *lost) count(w *leasingWeir, hits uint64) uint64 {
	l.t.Helper()
	check := backend.Check{Key: l.key, Limits: l.limits, Hits: hits, Charge: descriptors.ChargeAdmitted, Leases: true, Rate: 200}
	if backendtest.Ask(l.t, w.guard, check).Allowed {
		return hits
	}
	return 0
}

// TestLeasesNeverExceedAStatesLimit resets the key through other replicas while some lease, and holds each state to N.
func TestLeasesNeverExceedAStatesLimit(t *testing.T) {
	t.Parallel()
	shard := new(atomic.Int64)
	store := opened(t, on(t, topology.Single), shard)
	for round := range leaseWalks() {
		r := rand.New(rand.NewPCG(*conformanceSeed, 1000+uint64(round)))
		l := &leasing{t: t, r: r, store: store, shard: shard, key: fmt.Appendf(nil, "losses/%d/%d", *conformanceSeed, round),
			now: time.Unix(1_796_000_000+r.Int64N(1e6), r.Int64N(1e9)), limits: leasableLimits(t, r), loses: true,
			load: []uint64{10, 20, 40, 60}[r.IntN(4)], depth: 2}
		for range 2 + r.IntN(3) {
			l.weirs = append(l.weirs, l.open())
		}
		l.passes(0)
		for range 1000 {
			l.move()
			l.step()
		}
	}
}
