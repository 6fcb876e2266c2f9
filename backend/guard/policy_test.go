package guard

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/memory"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter"
	"github.com/weirproxy/weir/descriptors"
)

// behind opens a store whose Redis is reached through a proxy.
func behind(t testing.TB) (*counter.Store, *redistest.FaultProxy) {
	t.Helper()
	proxy := redistest.Proxy(t, redistest.Single(t).Addr)
	return openStore(t, proxy.Addr), proxy
}

func openStore(t testing.TB, addr string) *counter.Store {
	t.Helper()
	s, err := counter.Open(counter.Config{Redis: redis.Config{URL: addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// decideIn decides checks with a deadline.
func decideIn(t testing.TB, g *Guard, d time.Duration, checks ...backend.Check) []backend.Decision {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	out := make([]backend.Decision, len(checks))
	if err := g.Decide(ctx, checks, out); err != nil {
		t.Fatalf("deciding %d checks: %v", len(checks), err)
	}
	return out
}

func TestEachPolicyDecidesWhatItSaysWhileRedisIsGone(t *testing.T) {
	store, proxy := behind(t)
	g := New(store, Config{Policy: descriptors.PolicyAllow, Replicas: func() int { return 3 },
		Local: func() (backend.Counter, error) { return memory.Open(memory.Config{MaxKeys: 100}) }})
	t.Cleanup(func() { _ = g.local.close() })
	checks := []backend.Check{
		count("default", perMinute(t, 1), 5),
		{Key: []byte("deny"), Limits: perMinute(t, 100), Hits: 1, OnFailure: descriptors.PolicyDeny},
		{Key: []byte("given back"), Limits: perMinute(t, 100), Hits: 1, OnFailure: descriptors.PolicyDeny, Op: backend.Refund},
		{Key: []byte("error"), Limits: perMinute(t, 100), Hits: 1, OnFailure: descriptors.PolicyError},
		{Key: []byte("local"), Limits: perMinute(t, 9), Hits: 3, OnFailure: descriptors.PolicyLocal},
		{Key: []byte("local"), Limits: perMinute(t, 9), Hits: 1, OnFailure: descriptors.PolicyLocal},
		{Key: []byte("small"), Limits: perMinute(t, 2), Hits: 1, OnFailure: descriptors.PolicyLocal},
	}
	proxy.Refuse()
	proxy.ResetAll()
	out := decideIn(t, g, time.Second, checks...)
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
	} {
		d := out[i]
		if d.Allowed != want.allowed || d.Source != want.source || d.Reason == 0 || (d.Err != nil) != (i == 3) {
			t.Errorf("%q got %+v, want allowed %v by source %d, with a reason: %s", checks[i].Key, d, want.allowed, want.source, want.why)
		}
	}
	if out[1].Policy != descriptors.PolicyDeny || out[2].Policy != descriptors.PolicyDeny {
		t.Errorf("deny is shown as %v, and of a refund as %v", out[1].Policy, out[2].Policy)
	}
	if d := out[1]; d.RetryIn <= 0 {
		t.Errorf("deny tells to come again after %v; want some time", d.RetryIn)
	}
	if at := g.Stats().LastLocal; time.Since(at) > time.Minute {
		t.Errorf("checks were last counted in this process at %v, want just now", at)
	}
}

func TestWhatRedisHasCountedHoldsAgainOnceItIsBack(t *testing.T) {
	store, proxy := behind(t)
	g := New(store, Config{Policy: descriptors.PolicyAllow})
	limits := limitOf(t, 2, descriptors.Hour, descriptors.SlidingWindow)
	if d := decideIn(t, g, 5*time.Second, count("k", limits, 2))[0]; !d.Allowed || d.Source != backend.FromStore {
		t.Fatalf("the first 2 of 2 hits got %+v", d)
	}
	proxy.Refuse()
	proxy.ResetAll()
	if d := decideIn(t, g, 200*time.Millisecond, count("k", limits, 1))[0]; !d.Allowed || d.Source != backend.FromPolicy {
		t.Fatalf("while Redis is gone a hit got %+v, want it allowed by the policy", d)
	}
	proxy.Accept(t)
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		d := decideIn(t, g, 200*time.Millisecond, count("k", limits, 1))[0]
		if d.Source == backend.FromStore {
			if d.Allowed || d.Before != 2 {
				t.Errorf("Redis is back and answers %+v; want denied, with the 2 hits from before and none of what the policy let pass", d)
			}
			return
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("Redis is back, and for a minute the policy went on deciding")
		}
	}
}

func TestAResetAndAGrantElsewhereAreHeardOfWithinASecond(t *testing.T) {
	addr := redistest.Single(t).Addr
	here, elsewhere := New(openStore(t, addr), Config{}), New(openStore(t, addr), Config{})
	limits := perMinute(t, 10)
	for name, change := range map[string]func(key []byte) error{
		"reset": func(key []byte) error { return elsewhere.Reset(t.Context(), key) },
		"grant": func(key []byte) error {
			return backend.DecideAll(t.Context(), elsewhere,
				[]backend.Check{{Key: key, Limits: limits, Op: backend.Refund, Hits: 5}}, make([]backend.Decision, 1))
		},
	} {
		check := count(name, limits, 1)
		if decideIn(t, here, 5*time.Second, count(name, limits, 10), check)[1].Allowed {
			t.Fatalf("11 of 10 hits passed")
		}
		if err := change(check.Key); err != nil {
			t.Fatal(err)
		}
		changed := time.Now()
		for !decideIn(t, here, 5*time.Second, check)[0].Allowed {
			if waited := time.Since(changed); waited > longestDenial {
				if d := decideIn(t, here, 5*time.Second, check)[0]; !d.Allowed {
					t.Fatalf("%v after a %s by another replica a hit still gets %+v; want it to pass after a second at the latest", waited, name, d)
				}
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func TestADeniedHotKeyHardlyAsksRedis(t *testing.T) {
	store := openStore(t, redistest.Single(t).Addr)
	g := New(store, Config{})
	hot := count("hot", limitOf(t, 10, descriptors.Hour, descriptors.SlidingWindow), 1)
	admitted, begin := 0, time.Now()
	const asks = 50_000
	for range asks {
		if decideIn(t, g, 5*time.Second, hot)[0].Allowed {
			admitted++
		}
	}
	took := time.Since(begin)
	if most := 11 + uint64(took/longestDenial) + 1; admitted != 10 || store.Stats().Checks > most {
		t.Errorf("of %d hits in %v %d were admitted and Redis was asked %d times; want 10, and at most %d: once a second when denied",
			asks, took, admitted, store.Stats().Checks, most)
	}
}

// goes is a store that can go away.
type goes struct {
	*asked
	away atomic.Bool
}

func (s *goes) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if !s.away.Load() {
		return s.asked.Decide(ctx, checks, out)
	}
	for i := range checks {
		out[i] = backend.Decision{Err: &backend.Away{Reason: backend.Down, Err: counter.ErrUnavailable}}
	}
	return nil
}

func TestADeniedKeyIsRefusedWhileTheStoreIsGoneForAsLongAsThatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &goes{asked: newStore(t)}
		g := New(store, Config{Policy: descriptors.PolicyAllow})
		denied := count("k", hasDenied(t, g, "k", 10, 1), 1)
		store.away.Store(true)
		time.Sleep(900 * time.Millisecond)
		if d := ask(t, g, denied); d.Allowed || d.Source != backend.FromDenyCache {
			t.Errorf("within a second of its denial a key got %+v, want the denial: nobody needs a store to know it", d)
		}
		time.Sleep(100 * time.Millisecond)
		if d := ask(t, g, denied); !d.Allowed || d.Source != backend.FromPolicy || d.Policy != descriptors.PolicyAllow {
			t.Errorf("a second after its denial it got %+v, want what the policy says", d)
		}
	})
}

func TestARequestThatIsKnownToBeRefusedUsesNoLocalShareUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &goes{asked: newStore(t)}
		g := New(store, Config{Local: func() (backend.Counter, error) { return memory.Open(memory.Config{MaxKeys: 100}) }})
		defer func() { _ = g.local.close() }()
		denied := count("denied", hasDenied(t, g, "denied", 10, 1), 1)
		sibling := count("sibling", perMinute(t, 2), 1)
		sibling.OnFailure = descriptors.PolicyLocal
		store.away.Store(true)
		var out [2]backend.Decision
		for range 5 {
			if err := g.Decide(t.Context(), []backend.Check{sibling, denied}, out[:]); err != nil || !out[0].Allowed || out[0].Remaining != 2 {
				t.Fatalf("beside a known denial the other descriptor got %+v (%v), want it looked at, with both hits left", out[0], err)
			}
		}
		if out[0].Source != backend.FromLocal || out[1].Source != backend.FromDenyCache {
			t.Errorf("decided by %d and %d, want this process and the deny cache", out[0].Source, out[1].Source)
		}
	})
}

func TestSharesAddUpToNoMoreThanTheLimitWhereItIsLargeEnough(t *testing.T) {
	for n := range uint64(50) {
		for replicas := uint64(1); replicas < 10; replicas++ {
			limit := perMinute(t, n)
			got := shares(limit, replicas)[0].Requests
			if sum := got * replicas; n == 0 && got != 0 || n > 0 && got == 0 || n >= replicas && sum > n || limit[0].Requests != n {
				t.Errorf("%d of %d replicas' hits for a limit of %d: they would admit %d together", got, replicas, n, sum)
			}
		}
	}
	bucket, err := limitOf(t, 100, descriptors.Minute, descriptors.TokenBucket)[0].WithBurst(7)
	if err != nil {
		t.Fatal(err)
	}
	if got := shares([]descriptors.Limit{bucket}, 3)[0]; got.Requests != 33 || got.Burst != 2 {
		t.Errorf("a third of a bucket is %s", fmt.Sprint(got))
	}
}
