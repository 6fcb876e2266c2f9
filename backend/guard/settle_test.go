package guard

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// lender is a store that grants what is wanted.
type lender struct {
	frozen    string // the key whose calls get no answer, when they settle
	meanwhile func() // called once while a question for a lease is on its way, if not nil

	mu      sync.Mutex
	settled []backend.Lease
	wanted  int
	asked   backend.Lease // the last question
}

func (l *lender) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	for i := range checks {
		if checks[i].Op == backend.Refund && string(checks[i].Key) == l.frozen {
			<-ctx.Done()
			return ctx.Err()
		}
	}
	if do := l.meanwhile; do != nil {
		l.meanwhile = nil
		do()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range checks {
		out[i] = backend.Decision{Allowed: true, Remaining: 900}
		switch q := checks[i].Lease; {
		case q == nil:
		case checks[i].Op == backend.Count:
			l.asked, l.wanted = *q, l.wanted+1
			q.Hits, q.State, q.Now = q.Want, 1, time.Now()
		default:
			q.Returned = q.Unused
			l.settled = append(l.settled, *q)
		}
	}
	return nil
}

func (*lender) Inspect(context.Context, []byte, []descriptors.Limit) ([]backend.LimitCount, error) {
	return nil, nil
}
func (*lender) Reset(context.Context, []byte) error { return nil }
func (*lender) Close() error                        { return nil }

// By its own clock a guard settles what has ended, though nobody asks for the key again.
func TestGuardSettlesEndedLeasesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(lender)
		g := New(store, Config{Leases: true})
		check := count("k", perMinute(t, 10_000), 1)
		check.Leases, check.Rate = true, 100
		if err := g.Decide(t.Context(), []backend.Check{check}, make([]backend.Decision, 1)); err != nil || store.wanted != 1 {
			t.Fatalf("%d leases were wanted (%v), want one", store.wanted, err)
		}
		time.Sleep(backend.MaxLeaseTime + backend.SettleTime)
		synctest.Wait()
		if len(store.settled) != 1 || store.settled[0].Unused != 100 {
			t.Errorf("a second and a tenth after the grant %+v was settled, want the 100 hits that nobody used", store.settled)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A lease of one would deny the other, which is decided behind it.
func TestChecksSharingAStateTakeNoLease(t *testing.T) {
	store := new(lender)
	g := New(store, Config{Leases: true, Now: time.Now})
	one, other := count("k", perMinute(t, 10_000), 1), count("k", perMinute(t, 400), 1)
	for _, c := range []*backend.Check{&one, &other} {
		c.Leases, c.Rate = true, 100
	}
	if err := g.Decide(t.Context(), []backend.Check{one, other}, make([]backend.Decision, 2)); err != nil || store.wanted != 0 {
		t.Errorf("two checks of a key under limits of one state want %d leases (%v), want none", store.wanted, err)
	}
}

// A batch that a frozen server holds up keeps no other, and no later one, from being settled.
func TestFrozenServerDelaysNoOtherSettlements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lender{frozen: "k0"}
		g := New(store, Config{Leases: true})
		for i := range 3 * backend.MaxChecks {
			borrow(t, g, fmt.Sprint("k", i))
		}
		time.Sleep(backend.MaxLeaseTime / 2)
		borrow(t, g, "late")
		time.Sleep(backend.MaxLeaseTime + backend.SettleTime)
		synctest.Wait()
		if n := len(store.settled); n < 2*backend.MaxChecks+1 {
			t.Errorf("%d leases were settled while one server was frozen, want all of the other calls: %d at least", n,
				2*backend.MaxChecks+1)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// borrow has a guard lease hits of a key.
func borrow(t *testing.T, g *Guard, key string) {
	t.Helper()
	check := count(key, perMinute(t, 10_000), 1)
	check.Leases, check.Rate = true, 100
	if err := g.Decide(t.Context(), []backend.Check{check}, make([]backend.Decision, 1)); err != nil {
		t.Fatal(err)
	}
}

// Hits that lapse count on, so the next lease is smaller by them, unless their state is lost. A lease that could not be
// settled lapses when the key leases again.
func TestLapsedHitsShrinkTheNextLease(t *testing.T) {
	for _, tt := range []struct {
		name      string
		settle    func(*backend.Lease) error
		abandoned uint64
	}{
		{"returned", func(q *backend.Lease) error { q.Returned = q.Unused; return nil }, 0},
		{"lapsed", func(*backend.Lease) error { return nil }, 100},
		{"the state is lost", func(q *backend.Lease) error { q.State++; return nil }, 0},
		{"the server is away", func(*backend.Lease) error { return &backend.UnavailableError{Reason: backend.Down} }, 100},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := new(lender)
			g := New(store, Config{Leases: true, Now: time.Now})
			borrow(t, g, "k")
			time.Sleep(backend.MaxLeaseTime + 10*time.Millisecond)
			settlement := g.leases.shard([]byte("k")).takeEnded(nil, time.Now(), false)[0]
			store.meanwhile = func() { g.leases.finishSettlement(&settlement, tt.settle(settlement.Lease), time.Now()) }
			borrow(t, g, "k")
			time.Sleep(backend.MaxLeaseTime + 10*time.Millisecond)
			g.Settle(t.Context())
			borrow(t, g, "k")
			if got := store.asked.Abandoned; got != tt.abandoned {
				t.Errorf("%s: a question counts %d hits as abandoned, want %d", tt.name, got, tt.abandoned)
			}
			if s := g.Stats(); s.LeaseGranted != s.LeaseUsed+s.LeaseReturned+s.LeaseLapsed+store.asked.Want {
				t.Errorf("%s: without the last lease, hits that were granted and what became of them differ: %+v", tt.name, s)
			}
		})
	}
}
