package guard

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
)

// failingStore is a store that does not answer while away is set.
type failingStore struct {
	*countingStore
	away atomic.Bool
}

func (s *failingStore) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if !s.away.Load() {
		return s.countingStore.Decide(ctx, checks, out)
	}
	for i := range checks {
		out[i] = backend.Decision{Err: &backend.UnavailableError{Reason: backend.Down, Err: errors.New("connection refused")}}
	}
	return nil
}

// testPolicy runs a test in a synctest bubble, with a guard of one of three replicas, and its store.
func testPolicy(t *testing.T, p descriptors.Policy, test func(t *testing.T, g *Guard, store *failingStore)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &failingStore{countingStore: newStore(t)}
		test(t, New(store, Config{Policy: p, Replicas: func() int { return 3 }, Local: fixture.Memory(t, nil)}), store)
	})
}

func TestPoliciesDecideWhileTheStoreIsUnavailable(t *testing.T) {
	testPolicy(t, descriptors.PolicyAllow, func(t *testing.T, g *Guard, store *failingStore) {
		checks := []backend.Check{
			count("default", append(perMinute(t, 100), limitOf(t, 1, descriptors.Hour, descriptors.SlidingWindow)...), 5),
			{Key: []byte("deny"), Limits: perMinute(t, 100), Hits: 1, OnFailure: descriptors.PolicyDeny},
			{Key: []byte("given back"), Limits: perMinute(t, 100), Hits: 1, OnFailure: descriptors.PolicyDeny, Op: backend.Refund},
			{Key: []byte("error"), Limits: perMinute(t, 100), Hits: 1, OnFailure: descriptors.PolicyError},
			{Key: []byte("local"), Limits: perMinute(t, 9), Hits: 3, OnFailure: descriptors.PolicyLocal},
			{Key: []byte("local"), Limits: perMinute(t, 9), Hits: 1, OnFailure: descriptors.PolicyLocal},
			{Key: []byte("small"), Limits: perMinute(t, 2), Hits: 1, OnFailure: descriptors.PolicyLocal},
			count("blocked", perMinute(t, 0), 1),
		}
		store.away.Store(true)
		out := make([]backend.Decision, len(checks))
		if err := g.Decide(t.Context(), checks, out); err != nil {
			t.Fatal(err)
		}
		for i, want := range []struct {
			allowed bool
			source  backend.Source
			why     string
		}{
			{true, backend.FromPolicy, "allow lets all pass, whatever the limit"},
			{false, backend.FromPolicy, "deny refuses all"},
			{true, backend.FromPolicy, "hits that are given back are never refused"},
			{false, backend.FromStore, "error gives no verdict"},
			{true, backend.FromLocal, "a third of 9 hits is this replica's"},
			{false, backend.FromLocal, "the share of 3 is used"},
			{true, backend.FromLocal, "a share is one hit at least"},
			{false, backend.FromPolicy, "whom a limit of 0 blocks, it blocks without a store"},
		} {
			d := out[i]
			if d.Allowed != want.allowed || d.Source != want.source || d.Reason == 0 || (d.Err != nil) != (i == 3) {
				t.Errorf("%q got %+v, want allowed %v by source %d, with a reason: %s",
					checks[i].Key, d, want.allowed, want.source, want.why)
			}
		}
		if out[0].Strictest != 1 || out[0].Remaining != 0 {
			t.Errorf("allow speaks of limit %d, with %d left, want the one of 1 an hour, which 5 hits use up",
				out[0].Strictest, out[0].Remaining)
		}
		if out[1].Policy != descriptors.PolicyDeny || out[2].Policy != descriptors.PolicyDeny {
			t.Errorf("deny is shown as %v, and of a refund as %v", out[1].Policy, out[2].Policy)
		}
		if d := out[1]; d.RetryIn <= 0 {
			t.Errorf("deny tells to come again after %v; want some time", d.RetryIn)
		}
	})
}

func TestKnownDenialUsesNoLocalShare(t *testing.T) {
	testPolicy(t, descriptors.PolicyLocal, func(t *testing.T, g *Guard, store *failingStore) {
		checks := []backend.Check{count("sibling", perMinute(t, 6), 1), count("denied", fillAndDeny(t, g, "denied"), 1),
			count("greedy", perMinute(t, 6), 3)}
		store.away.Store(true)
		var out [3]backend.Decision
		for range 5 {
			err := g.Decide(t.Context(), checks, out[:])
			if err != nil || !out[0].Allowed || out[0].Remaining != 2 || out[2].Allowed {
				t.Fatalf("beside a known denial the others got %+v and %+v (%v), want them looked at: 1 of the share of 2 fits, 3 do not",
					out[0], out[2], err)
			}
		}
		if out[0].Source != backend.FromLocal || out[1].Source != backend.FromDenyCache {
			t.Errorf("decided by %d and %d, want this process and the deny cache", out[0].Source, out[1].Source)
		}
	})
}

func TestLocalSharesStayWithinTheLimit(t *testing.T) {
	for n := range uint64(50) {
		for replicas := uint64(1); replicas < 10; replicas++ {
			limit := perMinute(t, n)
			got := divideLimits(limit, replicas)[0].Requests
			if sum := got * replicas; n == 0 && got != 0 || n > 0 && got == 0 || n >= replicas && sum > n || limit[0].Requests != n {
				t.Errorf("%d of %d replicas' hits for a limit of %d: they would admit %d together", got, replicas, n, sum)
			}
		}
	}
	bucket, err := limitOf(t, 100, descriptors.Minute, descriptors.TokenBucket)[0].WithBurst(7)
	if err != nil {
		t.Fatal(err)
	}
	if got := divideLimits([]descriptors.Limit{bucket}, 3)[0]; got.Requests != 33 || got.Burst != 2 {
		t.Errorf("a third of a bucket is %+v", got)
	}
}
