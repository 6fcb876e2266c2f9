package guard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// lender is a store that grants what is wanted.
type lender struct {
	settled []backend.Lease
	wanted  int
}

func (l *lender) Decide(_ context.Context, checks []backend.Check, out []backend.Decision) error {
	for i := range checks {
		out[i] = backend.Decision{Allowed: true, Remaining: 900}
		switch q := checks[i].Lease; {
		case q == nil:
		case checks[i].Op == backend.Count:
			q.Hits, q.Now, l.wanted = q.Want, time.Now(), l.wanted+1
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
func TestEndedLeasesAreSettledUnasked(t *testing.T) {
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
func TestChecksOfOneStateDoNotLease(t *testing.T) {
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
