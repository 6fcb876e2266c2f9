package faults_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// crowd asks from several goroutines at once, each as soon as it has its answer.
const crowd = 16

// patiently asks with all the time that a slow machine may need.
func (r *replica) patiently(t *testing.T, question *rlspb.RateLimitRequest) *rlspb.RateLimitResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answer, err := r.rls().ShouldRateLimit(ctx, question)
	if err != nil {
		t.Errorf("a call failed: %v", err)
		return &rlspb.RateLimitResponse{}
	}
	return answer
}

// inParallel calls ask with 0 to n-1.
func inParallel(n int, ask func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range crowd {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				ask(i)
			}
		})
	}
	workers.Wait()
}

// floodMemory asks for many more keys than fit into memory. Keys that were over their limit before it must be so during
// it and afterwards: nobody gets through by asking for other keys.
func floodMemory(t *testing.T) string {
	keys, most := form(100_000, 10_000_000), form(20_000, 1_000_000)
	const spent, each = 100, 20 // each: so many keys are asked for at once
	r := startReplica(t, `domain: shop
descriptors:
- key: flood
  rate_limit: { unit: hour, requests_per_unit: 10 }
- key: spent
  rate_limit: { unit: hour, requests_per_unit: 1 }
`, "BACKEND_TYPE=memory", fmt.Sprint("MEMORY_MAX_KEYS=", most), "HISTORY=false")
	ask := func(key, value string) bool {
		question := &rlspb.RateLimitRequest{Domain: "shop", Descriptors: []*descriptorpb.RateLimitDescriptor{entry(key, value)}}
		return r.patiently(t, question).OverallCode == rlspb.RateLimitResponse_OVER_LIMIT
	}
	for i := range spent {
		ask("spent", fmt.Sprint(i))
		ask("spent", fmt.Sprint(i))
	}
	passed := func(of func(int) bool) (n int) {
		for i := range spent {
			if of(i) && !ask("spent", fmt.Sprint(i)) {
				n++
			}
		}
		return n
	}
	during := 0
	inParallel(keys/each, func(n int) {
		question := &rlspb.RateLimitRequest{Domain: "shop"}
		for i := range each {
			question.Descriptors = append(question.Descriptors, entry("flood", fmt.Sprint(n*each+i)))
		}
		r.patiently(t, question)
		if n%(keys/each/10) == 0 {
			during += passed(func(i int) bool { return i%2 == 0 && n%2 == 0 })
		}
	})
	during += passed(func(i int) bool { return i%2 == 0 })
	after := passed(func(i int) bool { return i%2 == 1 })
	m := r.mustScrape(t)
	if during+after > 0 {
		t.Errorf("row 13: %d requests of keys that were asked for all the time, and %d of keys that were not, passed although their key "+
			"is over its limit: a flood of other keys must not let them through", during, after)
	}
	rss := m["process_resident_memory_bytes"]
	if limit := form(memoryCap, 3*memoryCap); rss > limit {
		t.Errorf("row 13: weir holds %.0f MB after a flood, at most %.0f are allowed", rss/1e6, limit/1e6)
	}
	return fmt.Sprintf("%d keys into room for %d, %.0f held, %.0f evicted · %d of %d spent keys let through · RSS %.0f MB", keys, most,
		m["weir_memory_keys"], m.sum("weir_memory_evicted_keys_total", ""), during+after, spent, rss/1e6)
}

// entry returns a descriptor of one entry.
func entry(key, value string) *descriptorpb.RateLimitDescriptor {
	return &descriptorpb.RateLimitDescriptor{Entries: []*descriptorpb.RateLimitDescriptor_Entry{{Key: key, Value: value}}}
}

// floodNames asks for domains that nobody knows, and brings limits that differ from call to call: no request makes a
// time series.
func floodNames(t *testing.T) string {
	const moreMemory = 10e6
	names := form(5_000, 1_000_000)
	r := startReplica(t, rules(time.Minute, "sliding_window"), "BACKEND_TYPE=memory", "MEMORY_MAX_KEYS=1000", "HISTORY=false")
	ask := func(i int) {
		unknown := &rlspb.RateLimitRequest{Domain: fmt.Sprint("unknown-", i)}
		unknown.Descriptors = append(unknown.Descriptors, describe("x", fmt.Sprint(i)))
		r.patiently(t, unknown)
		brought := request("shop", []string{countPlan, fmt.Sprint("none-", i)}[i%2], "all")
		brought.Descriptors[0].Limit = &descriptorpb.RateLimitDescriptor_RateLimitOverride{
			RequestsPerUnit: uint32(i + 1), Unit: typepb.RateLimitUnit_HOUR,
		}
		r.patiently(t, brought)
	}
	inParallel(5_000, ask) // all kinds of series are there, and the heap has its size
	before := r.mustScrape(t)
	inParallel(names, func(i int) { ask(5_000 + i) })
	after := r.mustScrape(t)
	more := after["process_resident_memory_bytes"] - before["process_resident_memory_bytes"]
	if len(after) != len(before) {
		t.Errorf("row 14: /metrics has %d series after %d unknown domains and as many overrides, and had %d: a request must not make one",
			len(after), names, len(before))
	}
	if more > slack*moreMemory {
		t.Errorf("row 14: weir holds %.0f MB more after %d names, ten times %.0f", more/1e6, names, moreMemory/1e6)
	}
	return fmt.Sprintf("%d domains and %d overrides · %+d series of 0, RSS %+.1f of 10 MB", names, names,
		len(after)-len(before), more/1e6)
}

// hotKey asks for one key as fast as it is answered. It is admitted exactly as often as its limit says and, once over,
// costs Redis next to nothing.
func hotKey(t *testing.T) string {
	const limit = 1000
	proxy := redistest.Proxy(t, redistest.Single(t).Addr)
	var to []*replica
	for range replicas {
		to = append(to, startReplica(t, onePlan("hot", fmt.Sprintf("unit: hour, requests_per_unit: %d", limit)),
			"REDIS_URL="+proxy.Addr, "REDIS_TIMEOUT=30s", "HISTORY=false"))
	}
	for _, r := range to {
		redistest.Eventually(t, "a replica counts", func() error { return r.look("hot", "all", patience) })
	}
	var admitted atomic.Int64
	hit := func(i int) {
		if to[i%replicas].patiently(t, request("shop", "hot", "all")).OverallCode == rlspb.RateLimitResponse_OK {
			admitted.Add(1)
		}
	}
	inParallel(3*limit, hit)
	before, began := proxy.Requests(countingCommand), time.Now()
	calls := form(5_000, 200_000)
	inParallel(calls, hit)
	took, asked := time.Since(began), proxy.Requests(countingCommand)-before
	if got := admitted.Load(); got != limit {
		t.Errorf("row 15: %d of %d calls were admitted, want %d exactly: nothing was wrong with Redis", got, calls+3*limit, limit)
	}
	// Of a denial a replica may think that it is true for a second.
	if most := calls/100 + replicas*(int(took.Seconds())+1)*crowd; asked > most {
		t.Errorf("row 15: Redis was asked %d times for %d calls of a key that is over, want at most %d: a denied hot key costs no Redis",
			asked, calls, most)
	}
	return fmt.Sprintf("%.0f calls a second · %d of %d admitted · once over, Redis was asked %d times for %d calls, %.2f%% of 1%%",
		float64(calls)/took.Seconds(), admitted.Load(), limit, asked, calls, share(asked, calls))
}

// herd lets many clients come back at the very instant at which their windows end.
func herd(t *testing.T) string {
	const window, limit = 2 * time.Second, 5
	clients, edges := form(100, 400), form(2, 10)
	server := redistest.Single(t)
	var to []*replica
	for range replicas {
		to = append(to, startReplica(t, onePlan("herd",
			fmt.Sprintf("unit: second, unit_multiplier: 2, requests_per_unit: %d, algorithm: fixed_window", limit)),
			"REDIS_URL="+server.Addr, "REDIS_TIMEOUT=30s", "HISTORY=false"))
	}
	for _, r := range to {
		redistest.Eventually(t, "a replica counts", func() error { return r.look("herd", "0", patience) })
	}
	var mu sync.Mutex
	var steady, rushed []call
	one := func(i int) (c call) {
		began := time.Now()
		to[i%replicas].patiently(t, request("shop", "herd", fmt.Sprint(i)))
		return call{ended: time.Since(began)}
	}
	first := time.Now().Truncate(window).Add(window) // since 1970, as windows are
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() {
			for n := range edges {
				edge := first.Add(time.Duration(n) * window)
				time.Sleep(time.Until(edge))
				for range 2 * limit {
					c := one(i)
					mu.Lock()
					if time.Since(edge) < 100*time.Millisecond {
						rushed = append(rushed, c)
					}
					mu.Unlock()
				}
				time.Sleep(time.Until(edge.Add(window/2 + time.Duration(i)*window/4/time.Duration(clients))))
				c := one(i)
				mu.Lock()
				steady = append(steady, c)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	ends := expiries(t, server)
	if len(ends) < clients/4 {
		t.Errorf("row 16: the %d keys of a herd end at only %d different milliseconds: they must not all go at once", clients, len(ends))
	}
	calm, rush := quantile(steady, 0.99), quantile(rushed, 0.99)
	return fmt.Sprintf("%d clients at %d edges · p99 in the first 100 ms %s, of 3 times the steady %s · "+
		"keys end at %d different milliseconds", clients, edges, brief(rush), brief(calm), len(ends))
}

// expiries returns the different milliseconds at which a server's keys end.
func expiries(t *testing.T, server *redistest.Server) []int64 {
	t.Helper()
	ends, err := server.Client().Do(context.Background(), "eval", `local ends = {}
		for _, key in ipairs(redis.call('keys', 'weir:*herd*')) do ends[#ends + 1] = redis.call('pexpiretime', key) end
		return ends`, 0).Int64Slice()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ends)
	return slices.Compact(ends)
}
