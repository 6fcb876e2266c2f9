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

// leasingStore is a store that grants all leases that checks ask for.
type leasingStore struct {
	frozenKey string // settlements of this key get no answer
	onDecide  func() // if not nil, called once, by the next call of Decide

	mu        sync.Mutex
	settled   []backend.Lease
	leases    int
	lastLease backend.Lease // the last lease that was asked for
}

func (s *leasingStore) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	for i := range checks {
		if checks[i].Op == backend.Refund && string(checks[i].Key) == s.frozenKey {
			<-ctx.Done()
			return ctx.Err()
		}
	}
	if do := s.onDecide; do != nil {
		s.onDecide = nil
		do()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range checks {
		out[i] = backend.Decision{Allowed: true, Remaining: 900}
		switch q := checks[i].Lease; {
		case q == nil:
		case checks[i].Op == backend.Count:
			s.lastLease, s.leases = *q, s.leases+1
			q.Hits, q.State, q.Now = q.Want, 1, time.Now()
		default:
			q.Returned = q.Unused
			s.settled = append(s.settled, *q)
		}
	}
	return nil
}

func (*leasingStore) Inspect(context.Context, []byte, []descriptors.Limit) ([]backend.LimitCount, error) {
	return nil, nil
}
func (*leasingStore) Reset(context.Context, []byte) error { return nil }
func (*leasingStore) Close() error                        { return nil }

// A guard settles an ended lease on time, even if no further check of the key comes.
func TestGuardSettlesEndedLeasesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(leasingStore)
		g := New(store, Config{Leases: true})
		check := count("k", perMinute(t, 10_000), 1)
		check.Leases, check.Rate = true, 100
		if err := g.Decide(t.Context(), []backend.Check{check}, make([]backend.Decision, 1)); err != nil || store.leases != 1 {
			t.Fatalf("%d leases were asked for (%v), want one", store.leases, err)
		}
		time.Sleep(backend.MaxLeaseTime + backend.SettleTime)
		synctest.Wait()
		if len(store.settled) != 1 || store.settled[0].Unused != 100 {
			t.Errorf("1.1 s after the grant %+v was settled, want the 100 unused hits", store.settled)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A lease for one check could deny the other, which the store decides after it.
func TestChecksSharingAStateTakeNoLease(t *testing.T) {
	store := new(leasingStore)
	g := New(store, Config{Leases: true, Now: time.Now})
	one, other := count("k", perMinute(t, 10_000), 1), count("k", perMinute(t, 400), 1)
	for _, c := range []*backend.Check{&one, &other} {
		c.Leases, c.Rate = true, 100
	}
	if err := g.Decide(t.Context(), []backend.Check{one, other}, make([]backend.Decision, 2)); err != nil || store.leases != 0 {
		t.Errorf("two checks of a key under limits of one state asked for %d leases (%v), want none", store.leases, err)
	}
}

// A batch of settlements that a frozen server blocks delays neither other batches nor later ones.
func TestFrozenServerDelaysNoOtherSettlements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &leasingStore{frozenKey: "k0"}
		g := New(store, Config{Leases: true})
		for i := range 3 * backend.MaxChecks {
			leaseHits(t, g, fmt.Sprint("k", i))
		}
		time.Sleep(backend.MaxLeaseTime / 2)
		leaseHits(t, g, "late")
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

// leaseHits makes a guard lease hits of a key.
func leaseHits(t *testing.T, g *Guard, key string) {
	t.Helper()
	check := count(key, perMinute(t, 10_000), 1)
	check.Leases, check.Rate = true, 100
	if err := g.Decide(t.Context(), []backend.Check{check}, make([]backend.Decision, 1)); err != nil {
		t.Fatal(err)
	}
}

// The store still counts lapsed hits, so the next lease is smaller by them, unless their state is lost. A lease that
// could not be settled lapses when the key leases again.
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
			store := new(leasingStore)
			g := New(store, Config{Leases: true, Now: time.Now})
			leaseHits(t, g, "k")
			time.Sleep(backend.MaxLeaseTime + 10*time.Millisecond)
			settlement := g.leases.shard([]byte("k")).takeEnded(nil, time.Now(), false)[0]
			store.onDecide = func() { g.leases.finishSettlement(&settlement, tt.settle(settlement.Lease), time.Now()) }
			leaseHits(t, g, "k")
			time.Sleep(backend.MaxLeaseTime + 10*time.Millisecond)
			g.Settle(t.Context())
			leaseHits(t, g, "k")
			if got := store.lastLease.Abandoned; got != tt.abandoned {
				t.Errorf("%s: the next lease counts %d hits as abandoned, want %d", tt.name, got, tt.abandoned)
			}
			if s := g.Stats(); s.LeaseGranted != s.LeaseUsed+s.LeaseReturned+s.LeaseLapsed+store.lastLease.Want {
				t.Errorf("%s: granted hits differ from used, returned and lapsed ones, without the last lease: %+v", tt.name, s)
			}
		})
	}
}
