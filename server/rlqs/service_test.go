package rlqs

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
	"github.com/weirproxy/weir/server/limit"
)

const minute = "{domain: shop, descriptors: [{key: user, rate_limit: {requests_per_unit: 6000, unit: minute}}]}"

// ann runs an Envoy with the bucket user=ann until the test ends.
func ann(t *testing.T, w *weir, rate int) *envoy {
	e := &envoy{bucket: map[string]string{"user": "ann"}, rate: rate}
	e.listen(w.connect(t))
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	e.run(ctx)
	return e
}

func TestNoWindowExceedsLimitAndReports(t *testing.T) {
	for _, unit := range []string{"second, unit_multiplier: 2", "second, unit_multiplier: 20", "minute"} {
		for _, algorithm := range []string{"sliding_window", "fixed_window", "token_bucket"} {
			inBubble(t, func(t *testing.T) {
				rules := fmt.Sprintf("{domain: shop, descriptors: [{key: user, rate_limit: {requests_per_unit: 1000, unit: %s, algorithm: %s}}]}", unit, algorithm)
				store, exchange := fixture.Memory(t, nil), &memoryExchange{messages: make(map[string]map[string]string)}
				a, b := start(t, store, rules, 2, exchange), start(t, store, rules, 2, exchange)
				envoys := []*envoy{ann(t, a, 50), ann(t, b, 1), ann(t, b, 10)}
				window := map[string]int{"second, unit_multiplier: 2": 2, "second, unit_multiplier: 20": 20, "minute": 60}[unit]
				var perSecond []int
				for second := range 180 {
					time.Sleep(time.Second)
					sum := 0
					for _, e := range envoys {
						sum += e.takePassed()
					}
					if perSecond = append(perSecond, sum); second < 10 {
						continue // before there were shares, all passed
					}
					inWindow := 0
					for _, n := range perSecond[max(10, len(perSecond)-window):] {
						inWindow += n
					}
					// The shares of a report interval are at most 1000, or the hits of the limit's rate in that time.
					if bound := 1000 + max(1000, 1000*5/window); inWindow > bound {
						t.Fatalf("%s, %s: %d passed in the %d seconds until %d, want at most %d: %v", unit, algorithm, inWindow, window, second, bound, perSecond)
					}
				}
				passed := 0
				for _, n := range perSecond[60:] {
					passed += n
				}
				t.Logf("%s %s: %.2f of what the limit allows passed", unit, algorithm, float64(passed)*float64(window)/120/1000)
			})
		}
	}
}

func TestUnusedSharesMoveWithinTwoReports(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store, exchange := fixture.Memory(t, nil), &memoryExchange{messages: make(map[string]map[string]string)}
		const rules = "{domain: shop, descriptors: [{key: user, rate_limit: {requests_per_unit: 100, unit: second}}]}"
		a, b := start(t, store, rules, 2, exchange), start(t, store, rules, 2, exchange)
		hungry, idle := ann(t, a, 1), []*envoy{ann(t, b, 1), ann(t, b, 1)}
		time.Sleep(20 * time.Second)
		hungry.mu.Lock()
		hungry.rate = 50
		hungry.mu.Unlock()
		time.Sleep(2 * reportInterval)
		hungry.takePassed()
		time.Sleep(reportInterval)
		if got := hungry.takePassed(); got < 5*(100-2*24-1) || got > 5*100 {
			t.Errorf("after two reports the hungry one lets %d through in 5 s, want what two of 20 a second leave of 100", got)
		}
		for _, e := range idle {
			if e.mu.Lock(); e.denials > 0 {
				t.Errorf("one that wants less than its share was denied %d", e.denials)
			}
			e.mu.Unlock()
		}
	})
}

func TestHistoryCountsReportsExactly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, fixture.Memory(t, nil), minute, 1, nil)
		e := ann(t, w, 30)
		time.Sleep(70 * time.Second)
		e.mu.Lock()
		e.rate = 0
		e.mu.Unlock()
		time.Sleep(2 * reportInterval)
		e.mu.Lock()
		defer e.mu.Unlock()
		got := w.counted()
		if got[history.Within] != e.passes || got[history.Over] != e.denials || e.denials == 0 {
			t.Errorf("recorded %v; the Envoy let %d through and denied %d", got, e.passes, e.denials)
		}
		if all := w.Totals(); all.Allowed != e.passes || all.Denied != e.denials {
			t.Errorf("totals %+v, want %d and %d", all, e.passes, e.denials)
		}
	})
}

func TestLostEnvoysShareReturnsAfterTTL(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, fixture.Memory(t, nil), "{domain: shop, descriptors: [{key: user, rate_limit: {requests_per_unit: 100, unit: second}}]}", 1, nil)
		lost, left := ann(t, w, 50), ann(t, w, 50)
		time.Sleep(30 * time.Second)
		lost.mu.Lock()
		if err := lost.stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		lost.rate, lost.stream = 0, nil
		lost.mu.Unlock()
		synctest.Wait()
		share := func() float64 {
			all, _ := w.Buckets("shop", time.Now())
			return all[0].Share
		}
		time.Sleep(2 * time.Second)
		if got := share(); got > 51 {
			t.Errorf("2 s after one of two is gone the other has %v a second, want its half while the first one's holds", got)
		}
		time.Sleep(15*time.Second + reportInterval)
		if got := share(); got < 99 {
			t.Errorf("after the TTL the other has %v a second, want all", got)
		}
		left.takePassed()
	})
}

func TestRulesWithoutALimitAllowAll(t *testing.T) {
	const rules = `{domain: shop, descriptors: [{key: user, value: free, rate_limit: {unlimited: true}},
		{key: user, value: seen, shadow_mode: true, rate_limit: {requests_per_unit: 1, unit: day}},
		{key: user, value: shut, rate_limit: {requests_per_unit: 0, unit: day}},
		{key: user, value: both, rate_limit: {requests_per_unit: 7, unit: day}, quota_mode: true},
		{key: plan, value: b, descriptors: [{key: area, rate_limit: {requests_per_unit: 5, unit: hour}}]}]}`
	inBubble(t, func(t *testing.T) {
		w := start(t, fixture.Memory(t, nil), rules, 1, nil)
		stream := w.connect(t)
		for _, c := range []struct {
			bucket map[string]string
			want   string
			path   string
		}{
			{map[string]string{"user": "free"}, "allow_all", "user=free"},
			{map[string]string{"user": "seen"}, "allow_all", "user=seen"},
			{map[string]string{"user": "shut"}, "deny_all", "user=shut"},
			{map[string]string{"user": "both"}, "share", "user=both"},
			{map[string]string{"other": "x"}, "allow_all", descriptors.UnmatchedPath},
			{map[string]string{"area": "x", "plan": "b"}, "share", "plan=b/area"},
		} {
			if err := stream.Send(usage("shop", c.bucket, 2, 0)); err != nil {
				t.Fatal(err)
			}
			answer, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			given := answer.BucketAction[0].GetQuotaAssignmentAction()
			if given.GetAssignmentTimeToLive().GetSeconds() != 15 || given.GetRateLimitStrategy().GetStrategy() == nil {
				t.Errorf("%v is assigned %v, want a strategy for 15 s", c.bucket, given)
			}
			found := false
			all, _ := w.Buckets("", time.Now())
			for _, b := range all {
				found = found || b.Path == c.path && b.Assignment == c.want
			}
			if !found {
				t.Errorf("%v: want %s by the rule %s; there are %+v", c.bucket, c.want, c.path, all)
			}
		}
		w.limiter.Apply(fixture.Config(t, "{domain: shop, descriptors: [{key: user, value: shut}]}"))
		time.Sleep(2 * time.Second)
		all, _ := w.Buckets("", time.Now())
		for _, b := range all {
			if b.Assignment != "allow_all" {
				t.Errorf("after a reload that removes the rules: %+v", b)
			}
		}
	})
}

func TestUnknownDomainsPassAndBrokenOnesFail(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, fixture.Memory(t, nil), minute, 1, nil)
		for domain, want := range map[string]string{"shop": "share", "none": "allow_all", "broken": "none"} {
			if domain == "broken" {
				w.limiter.Apply(yaml.NewLastGood(yaml.Options{}).Update([]yaml.File{{Name: "shop.yaml", Data: []byte(minute)}, {Name: "broken.yaml", Data: []byte("domain: broken\nx: y")}}, nil).Config)
			}
			stream := w.connect(t)
			_ = stream.Send(usage(domain, map[string]string{"user": "ann"}, 3, 2))
			time.Sleep(time.Second)
			all, _ := w.Buckets(domain, time.Now())
			if len(all) != 1 || all[0].Assignment != want {
				t.Errorf("domain %s: %+v, want %s", domain, all, want)
			}
			w.limiter.Apply(fixture.Config(t, minute))
		}
		if all := w.Totals(); all.Allowed != 9 || all.Denied != 6 {
			t.Errorf("%+v, want the reports of all three", all)
		}
	})
}

func TestShadowRuleRecordsHypotheticalOverHits(t *testing.T) {
	const rules = "{domain: shop, descriptors: [{key: user, shadow_mode: true, rate_limit: {requests_per_unit: 10, unit: day}}]}"
	inBubble(t, func(t *testing.T) {
		w := start(t, fixture.Memory(t, nil), rules, 1, nil)
		stream := w.connect(t)
		for range 2 {
			_ = stream.Send(usage("shop", map[string]string{"user": "ann"}, 8, 0))
			synctest.Wait()
		}
		if got := w.counted(); got[history.Within] != 10 || got[history.Shadow] != 6 {
			t.Errorf("recorded %v, want 10 within the limit and 6 in shadow", got)
		}
	})
}

func TestOnlyIdleBucketsAreAbandoned(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, fixture.Memory(t, nil), minute, 1, nil)
		busy, idle := ann(t, w, 1), ann(t, w, 1)
		time.Sleep(10 * time.Second)
		idle.mu.Lock()
		idle.rate = 0
		idle.mu.Unlock()
		time.Sleep(idleTime + 3*reportInterval)
		for _, e := range []*envoy{busy, idle} {
			e.mu.Lock()
			if e.known != (e == busy) {
				t.Errorf("an Envoy that sends %d requests in 50 ms knows its bucket: %v", e.rate, e.known)
			}
			e.mu.Unlock()
		}
		if got := w.Totals(); got.Buckets != 1 || got.Abandoned != 1 {
			t.Errorf("%+v, want one bucket and one that was abandoned", got)
		}
	})
}

func TestExceededBoundsAreNamed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, fixture.Memory(t, nil), minute, 1, nil)
		first := w.connect(t)
		for i := range 35 {
			if err := first.Send(usage("shop", map[string]string{"user": fmt.Sprint(i)}, 1, 0)); err != nil {
				t.Fatal(err)
			}
		}
		_ = first.Send(usage("shop", nil, 1, 0))
		synctest.Wait()
		second := w.connect(t)
		for i := range 15 {
			_ = second.Send(usage("shop", map[string]string{"user": fmt.Sprint(i)}, 1, 0))
		}
		synctest.Wait()
		for range 6 {
			_ = w.connect(t).Send(usage("shop", map[string]string{"user": "0"}, 0, 0))
		}
		synctest.Wait()
		ninth := w.connect(t)
		if _, err := ninth.Recv(); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a stream beyond eight: %v", err)
		}
		got := w.Totals()
		for bound, want := range map[string]uint64{"stream_buckets": 5, "buckets": 11, "streams": 1, "bucket_id": 1} {
			if got.Refused[bound] != want {
				t.Errorf("%d refused for %s, want %d", got.Refused[bound], bound, want)
			}
		}
		if got.Abandoned != 6 || got.Buckets != 40 { // nothing else makes an Envoy forget a bucket
			t.Errorf("%+v, want six idle buckets without room abandoned", got)
		}
		if all := w.counted(); all[history.Within] != 50 {
			t.Errorf("%d hits are recorded, want all 50 of buckets with and without room", all[history.Within])
		}
	})
}

// Buckets of ended streams stay while their assignments last, so they count towards MaxBuckets.
func TestBucketsOfEndedStreamsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, fixture.Memory(t, nil), minute, 1, nil)
		for i := range 5 {
			stream := w.connect(t)
			for j := range 20 {
				_ = stream.Send(usage("shop", map[string]string{"user": fmt.Sprint(i, j)}, 1, 0))
			}
			synctest.Wait()
			_ = stream.CloseSend()
			synctest.Wait()
		}
		if got := w.Totals(); got.Buckets != 40 || got.Refused["buckets"] != 60 {
			t.Errorf("%+v, want 40 buckets and 60 refused", got)
		}
		time.Sleep(17 * time.Second)
		if got := w.Totals(); got.Buckets != 0 || len(w.budgets) != 0 {
			t.Errorf("%+v and %d budgets after their assignments", got, len(w.budgets))
		}
	})
}

func TestBucketReportedTwiceIsAbandonedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, fixture.Memory(t, nil), minute, 1, nil)
		stream := w.connect(t)
		m := usage("shop", map[string]string{"user": "ann"}, 0, 0)
		_ = stream.Send(m)
		time.Sleep(idleTime)
		m.BucketQuotaUsages = append(m.BucketQuotaUsages, m.BucketQuotaUsages[0], m.BucketQuotaUsages[0])
		_ = stream.Send(m)
		synctest.Wait()
		if got := w.Totals(); got.Buckets != 0 {
			t.Errorf("%+v, want no bucket", got)
		}
	})
}

func TestStreamCannotChangeItsDomain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, fixture.Memory(t, nil), minute, 1, nil)
		for _, domains := range [][]string{{""}, {"shop", "", "bank"}} {
			stream := w.connect(t)
			for _, domain := range domains {
				_ = stream.Send(usage(domain, map[string]string{"user": "ann"}, 1, 0))
			}
			var err error
			for err == nil {
				_, err = stream.Recv()
			}
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("domains %q: %v", domains, err)
			}
		}
	})
}

// away is a store that does not answer while its field away is set.
type away struct {
	backend.Store
	away atomic.Bool
}

func (a *away) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if !a.away.Load() {
		return a.Store.Decide(ctx, checks, out)
	}
	for i := range checks {
		out[i] = backend.Decision{Err: errors.New("the store is away")}
	}
	return nil
}

func TestFailurePolicyAssignsWithoutTheStore(t *testing.T) {
	for policy, want := range map[string]string{"allow": "allow_all", "deny": "deny_all", "local": "share", "error": "share"} {
		inBubble(t, func(t *testing.T) {
			store := &away{Store: fixture.Memory(t, nil)}
			g := guard.New(store, guard.Config{Local: fixture.Memory(t, nil), Replicas: func() int { return 2 }})
			t.Cleanup(func() { _ = g.Close() })
			rules := "{domain: shop, descriptors: [{key: user, on_backend_failure: " + policy + ", rate_limit: {requests_per_unit: 6000, unit: minute}}]}"
			w := start(t, g, rules, 2, nil)
			e := ann(t, w, 3)
			time.Sleep(22 * time.Second) // between two reports
			w.counted()
			store.away.Store(true)
			e.mu.Lock()
			passed := e.passes + e.denials - e.allowed - e.denied // reported
			e.mu.Unlock()
			time.Sleep(2*reportInterval + time.Second)
			all, _ := w.Buckets("", time.Now())
			if all[0].Assignment != want {
				t.Errorf("by the policy %s: %+v, want %s", policy, all[0], want)
			}
			time.Sleep(2 * reportInterval)
			e.mu.Lock()
			if expired := !time.Now().Before(e.until); expired != (policy == "error") {
				t.Errorf("by the policy %s an assignment ends: %v", policy, expired)
			}
			sum := e.passes + e.denials - e.allowed - e.denied - passed
			e.mu.Unlock()
			if got := w.counted(); got[history.Degraded] != sum || got[history.Within] != 0 {
				t.Errorf("by the policy %s: recorded %v, want %d degraded hits", policy, got, sum)
			}
		})
	}
}

func TestRLSCallersAndEnvoysShareTheLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, fixture.Memory(t, nil), minute, 1, nil)
		ann(t, w, 5)
		ann(t, w, 20)
		time.Sleep(time.Minute)
		var call limit.Call
		admitted := uint64(0)
		for range 3000 {
			time.Sleep(20 * time.Millisecond)
			call.Reset()
			call.Domain, call.At, call.Hits = "shop", time.Now(), 3
			d := call.AddDescriptor()
			d.Entries = descriptors.Descriptor{{Key: "user", Value: "ann"}}
			if err := w.limiter.Decide(t.Context(), &call); err != nil {
				t.Fatal(err)
			}
			if s := call.Statuses[0]; call.Result != limit.OverLimit {
				if admitted += 3; s.Before+3 > 6000 {
					t.Fatalf("a caller of RLS is admitted at %d of 6000", s.Before)
				}
			}
		}
		got := w.Totals()
		if admitted == 0 || got.Over > 100 {
			t.Errorf("%d hits of RLS callers are admitted; beside %+v", admitted, got)
		}
	})
}

func TestDrainedStreamEndsAfterItsReport(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, fixture.Memory(t, nil), minute, 1, nil)
		ctx, drain := context.WithCancel(context.Background())
		line, server := bufconn.Listen(1<<20), grpc.NewServer(grpc.StreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return next(srv, ending{s, ctx})
		}))
		w.Register(server)
		go server.Serve(line)
		t.Cleanup(server.Stop)
		w.line = line
		e := ann(t, w, 1)
		time.Sleep(12 * time.Second)
		reported := w.Totals().Reports
		drain()
		time.Sleep(time.Second)
		if got := w.Totals(); got.Streams != 1 {
			t.Errorf("a second after a drain began: %+v, want the stream until its next report", got)
		}
		time.Sleep(3 * time.Second)
		if got := w.Totals(); got.Streams != 0 || got.Reports != reported+1 {
			t.Errorf("behind the next report: %+v, want no stream and one report after %d", got, reported)
		}
		e.takePassed()
	})
}

// ending is a stream whose context ends when the server drains.
type ending struct {
	grpc.ServerStream
	ctx context.Context
}

func (e ending) Context() context.Context { return e.ctx }
