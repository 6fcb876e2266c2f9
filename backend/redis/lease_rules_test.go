package redis

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

// still is two weirs before one server, whose clocks stand still: 1,000 a minute, asked for 200 times a second.
func still(t *testing.T) (l *leasing, here, there *leasingWeir) {
	t.Helper()
	t.Parallel()
	shard := new(atomic.Int64)
	l = &leasing{t: t, r: rand.New(rand.NewPCG(1, 1)), store: opened(t, on(t, topology.Single), shard), shard: shard,
		key: []byte(t.Name()), now: time.Unix(1_796_000_000, 0), depth: 2,
		limits: []descriptors.Limit{backendtest.NewLimit(t, 1000, descriptors.Minute, 1, descriptors.SlidingWindow, 0)}}
	l.weirs = []*leasingWeir{l.open(), l.open()}
	l.passes(0)
	return l, l.weirs[0], l.weirs[1]
}

// does has a weir decide a check at 200 hits a second.
func (w *leasingWeir) does(op backend.Op, hits uint64) backend.Decision {
	w.of.t.Helper()
	return backendtest.Ask(w.of.t, w.guard, backend.Check{Key: w.of.key, Limits: w.of.limits, Op: op, Hits: hits, Leases: true, Rate: 200})
}

// gets has a weir decide a check, and sees that it is admitted, by whom, and how many remain.
func (w *leasingWeir) gets(op backend.Op, hits uint64, source backend.Source, remaining uint64, why string) {
	w.of.t.Helper()
	if d := w.does(op, hits); d.Source != source || !d.Allowed || d.Remaining != remaining {
		w.of.t.Errorf("%s: got %+v; want it allowed by the %v, and %d to remain", why, d, source, remaining)
	}
}

func TestLeaseEndsWithItsBucket(t *testing.T) {
	l, here, there := still(t)
	here.gets(backend.Count, 1, backend.FromStore, 999, "the first hit asks")
	for i := range uint64(99) {
		here.gets(backend.Count, 1, backend.FromLease, 998-i, "a tenth of what remains is leased")
	}
	there.gets(backend.Count, 1, backend.FromStore, 899, "others see all that is leased")
	l.passes(10 * time.Millisecond)
	here.gets(backend.Count, 1, backend.FromStore, 809, "a used-up lease asks: 100 hits, one, and the 89 of another weir count")
	l.passes(990 * time.Millisecond)
	here.gets(backend.Count, 1, backend.FromStore, 897, "leases end before their bucket does, and what is unused goes back")
	if st := here.guard.Stats(); st.LeaseGranted != 179 || st.LeaseUsed != 99 || st.LeaseReturned != 80 || st.LeaseLapsed != 0 {
		t.Errorf("%+v; want 179 hits granted, 99 used, and the 80 of the second lease returned", st)
	}
}

func TestLeaseIsUsedWithoutRedis(t *testing.T) {
	l, here, _ := still(t)
	here.does(backend.Count, 1)
	here.cut = true
	var out [1]backend.Decision
	_ = here.guard.Decide(t.Context(), []backend.Check{{Key: l.key, Limits: l.limits, Hits: 500, Leases: true, Rate: 200}}, out[:])
	if out[0].Err == nil {
		t.Errorf("more hits than the lease has got %+v while the server is away", out[0])
	}
	here.gets(backend.Count, 99, backend.FromLease, 900, "the question that nobody got took nothing")
	here.cut = false
	here.gets(backend.Count, 1, backend.FromStore, 899, "the server is back")
}

// Redis executes what it is asked, also if its answer comes too late: what it grants then is used by nobody.
func TestLateLeaseGrantsUseUpNoLimit(t *testing.T) {
	l, here, there := still(t)
	here.late = true
	for range 20 {
		var out [1]backend.Decision
		check := backend.Check{Key: l.key, Limits: l.limits, Hits: 1, Leases: true, Rate: 200, OnFailure: descriptors.PolicyError}
		if _ = here.guard.Decide(t.Context(), []backend.Check{check}, out[:]); out[0].Err == nil {
			t.Fatalf("a late answer is told as %+v", out[0])
		}
		l.passes(time.Second)
	}
	here.late = false
	here.does(backend.Count, 1)
	if d := there.does(backend.Look, 0); d.Remaining < 1000-21-100 {
		t.Errorf("%d of 1,000 are left; want 21 hits counted, and at most a tenth of the limit to be leased besides", d.Remaining)
	}
}

func TestDeniedRequestTakesNothingFromALease(t *testing.T) {
	l, here, _ := still(t)
	here.does(backend.Count, 1)
	blocked := backend.Check{Key: append(l.key, "/blocked"...), Hits: 1, Enforced: true,
		Limits: []descriptors.Limit{backendtest.NewLimit(t, 0, descriptors.Minute, 1, descriptors.SlidingWindow, 0)}}
	backendtest.Ask(t, here.guard, blocked)
	var out [2]backend.Decision
	leased := backend.Check{Key: l.key, Limits: l.limits, Hits: 1, Leases: true, Rate: 200}
	if err := here.guard.Decide(t.Context(), []backend.Check{leased, blocked}, out[:]); err != nil {
		t.Fatal(err)
	}
	if d := out[0]; d.Source != backend.FromLook || !d.Allowed || d.Remaining != 999 {
		t.Errorf("beside a denial that is known: %+v; want a look, and 999 to remain", d)
	}
	here.gets(backend.Look, 0, backend.FromStore, 999, "a look counts what this weir may admit as room")
	here.gets(backend.Count, 99, backend.FromLease, 900, "and nothing was taken from the lease")
}

func TestRefundReturnsHitsToTheLease(t *testing.T) {
	l, here, there := still(t)
	here.does(backend.Count, 1)
	here.does(backend.Count, 50)
	here.gets(backend.Refund, 20, backend.FromLease, 969, "hits come back to the lease that they were taken from")
	grant := backend.Check{Key: l.key, Limits: l.limits, Op: backend.Refund, Hits: 30}
	if d := backendtest.Ask(t, here.guard, grant); d.Source != backend.FromStore || d.Remaining != 999 {
		t.Errorf("an operator's grant got %+v; want the lease settled, and all but one hit back", d)
	}
	there.gets(backend.Count, 1, backend.FromStore, 998, "others see it")
}

func TestCloseReturnsAllLeasedHits(t *testing.T) {
	_, here, there := still(t)
	here.does(backend.Count, 1)
	here.does(backend.Count, 9)
	if err := here.guard.Close(); err != nil {
		t.Fatal(err)
	}
	there.gets(backend.Count, 1, backend.FromStore, 989, "10 hits were used")
}

func TestKilledWeirsLeaseEndsWithItsWindow(t *testing.T) {
	l, here, there := still(t)
	here.does(backend.Count, 1) // and 99 more are leased, and never used
	l.weirs = l.weirs[1:]       // so that nobody settles it
	l.passes(61*time.Second - time.Microsecond)
	there.gets(backend.Look, 0, backend.FromStore, 900, "they count as long as their bucket")
	l.passes(time.Microsecond)
	there.gets(backend.Look, 0, backend.FromStore, 1000, "they are back when it has left")
}

func TestResetEndsTheLease(t *testing.T) {
	l, here, _ := still(t)
	here.does(backend.Count, 1)
	if err := here.guard.Reset(t.Context(), l.key); err != nil {
		t.Fatal(err)
	}
	here.gets(backend.Count, 1, backend.FromStore, 999, "after a reset the store is asked")
}

func TestChangedLimitEndsTheLease(t *testing.T) {
	l, here, _ := still(t)
	here.does(backend.Count, 1)
	l.limits = []descriptors.Limit{backendtest.NewLimit(t, 50, descriptors.Minute, 1, descriptors.SlidingWindow, 0)}
	here.gets(backend.Count, 1, backend.FromStore, 48, "the lease is settled, and 50 are too few for one")
	here.gets(backend.Count, 1, backend.FromStore, 47, "each hit is asked for")
}

func TestOnlySlidingWindowsLease(t *testing.T) {
	l, here, _ := still(t)
	for _, a := range []descriptors.Algorithm{descriptors.TokenBucket, descriptors.SlidingLog, descriptors.FixedWindow} {
		l.limits = []descriptors.Limit{backendtest.NewLimit(t, 1000, descriptors.Minute, 1, a, 0)}
		here.does(backend.Count, 1)
	}
	l.limits = []descriptors.Limit{backendtest.NewLimit(t, 1000, descriptors.Second, 2, descriptors.SlidingWindow, 0)}
	here.does(backend.Count, 1) // its buckets are 50 ms, after which what is unused cannot be returned
	l.limits = []descriptors.Limit{backendtest.NewLimit(t, 1000, descriptors.Minute, 1, descriptors.SlidingWindow, 0)}
	backendtest.Ask(t, here.guard, backend.Check{Key: l.key, Limits: l.limits, Hits: 1, Leases: true, Rate: 200, Charge: descriptors.ChargeAlways})
	backendtest.Ask(t, here.guard, backend.Check{Key: l.key, Limits: l.limits, Hits: 1})
	if n := here.guard.Stats().Leases; n != 0 {
		t.Errorf("%d leases were granted, of others than windows that count what they admit, or of keys that nobody asks for", n)
	}
}

// A check that asks for a lease costs Redis twice as much as one that does not.
func TestLeasesAreRequestedOnlyIfGrantable(t *testing.T) {
	l, here, _ := still(t)
	wants := func(want int, why string) {
		t.Helper()
		if here.does(backend.Count, 1); here.wants != want {
			t.Errorf("a lease was wanted %d times; want %d: %s", here.wants, want, why)
		}
	}
	l.limits = []descriptors.Limit{backendtest.NewLimit(t, 79, descriptors.Minute, 1, descriptors.SlidingWindow, 0)}
	wants(0, "a tenth of the limit is too little for one")
	l.limits = []descriptors.Limit{backendtest.NewLimit(t, 80, descriptors.Minute, 1, descriptors.SlidingWindow, 0)}
	wants(1, "a tenth of the limit is enough")
	wants(1, "so little remains that none was granted just now")
	l.passes(1001 * time.Millisecond)
	wants(2, "that was a second ago")
}

func TestInspectShowsLeasedHits(t *testing.T) {
	l, here, _ := still(t)
	l.limits = append(l.limits, backendtest.NewLimit(t, 1000, descriptors.Hour, 1, descriptors.FixedWindow, 0))
	backendtest.Ask(t, here.guard, backend.Check{Key: l.key, Limits: l.limits, Hits: 1, Leases: true, Rate: 200, Charge: descriptors.ChargeAdmitted})
	counts, err := here.guard.Inspect(t.Context(), l.key, l.limits)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		if c.Hits != 100 || c.Leased != 99 {
			t.Errorf("%v shows %d hits, %d of them leased; want 99 of 100", c.Limit, c.Hits, c.Leased)
		}
	}
}
