package dropin_test

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// Domains that nobody has configured, and overrides of limits, come from whoever sends requests.
func TestUnknownDomainsAndOverridesAddNoSeriesAndNoMemory(t *testing.T) {
	t.Parallel()
	redis, metrics := redistest.Single(t), process.Addr(t)
	w := weirtest.Ratelimit(t, nil, weirtest.Rule("basic", "unit: hour, requests_per_unit: 1000"), "REDIS_SOCKET_TYPE=tcp",
		"REDIS_URL="+redis.Addr, "USE_PROMETHEUS=true", "PROMETHEUS_ADDR="+metrics, "EXPIRATION_JITTER_MAX_SECONDS=0", weirtest.PatientRedis)
	series := func() (n int) {
		for _, url := range []string{"http://" + metrics + "/metrics", w.Admin + "/metrics"} {
			families, err := scrape(url)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				n += len(f.Metric)
			}
		}
		return n
	}
	domains, perDomain := form(2_200, 5_000, 1_000_000), form(24, 24, 9)
	flood(t, w, 0, domains/10, perDomain)
	seriesBefore, heapBefore := series(), heapOf(t, w)
	flood(t, w, domains/10, domains, perDomain)
	seriesAfter, heapAfter := series(), heapOf(t, w)
	t.Logf("%d unknown domains and %d overrides: %d series became %d, and %.1f MB of live heap %.1f", domains, domains*perDomain,
		seriesBefore, seriesAfter, float64(heapBefore)/1e6, float64(heapAfter)/1e6)
	if seriesAfter != seriesBefore {
		t.Errorf("%d series became %d, want no more once each kind of request was seen", seriesBefore, seriesAfter)
	}
	// In the short form, 40 bytes each; connections and batches in flight take some of them.
	if grown, most := heapAfter-heapBefore, form(2_000_000, 4_000_000, 10_000_000); grown > most {
		t.Errorf("the live heap grew by %d bytes, want less than %d", grown, most)
	}
}

// flood sends hits of domains that are unknown, numbered from one to before another, and perDomain times as many
// overrides of limits of one that is not. All must be answered OK.
func flood(t *testing.T, w *weirtest.Weir, from, to, perDomain int) {
	t.Helper()
	var next atomic.Int64
	next.Store(int64(from))
	var running sync.WaitGroup
	for range 16 {
		c := w.Client(t)
		running.Go(func() {
			for n := next.Add(1) - 1; n < int64(to); n = next.Add(1) - 1 {
				var overrides []*descriptorpb.RateLimitDescriptor
				for i := range int64(perDomain) {
					d := weirtest.Describe("plan", "theirs", "user", fmt.Sprint(n*int64(perDomain)+i))
					d.Limit = &descriptorpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 10, Unit: typepb.RateLimitUnit_SECOND}
					overrides = append(overrides, d)
				}
				unknown, err := c.Ask(fmt.Sprint("unknown-", n), weirtest.Describe("plan", "basic"))
				theirs, err2 := c.Ask("shop", overrides...)
				if err := errors.Join(err, err2); err != nil || unknown.OverallCode.String() != "OK" || theirs.OverallCode.String() != "OK" {
					t.Errorf("weir answers %v and %v (%v), want OK", unknown, theirs, err)
					return
				}
			}
		})
	}
	running.Wait()
}

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// heapOf returns how many bytes live in weir's heap, after a collection.
func heapOf(t *testing.T, w *weirtest.Weir) int {
	t.Helper()
	text, err := weirtest.Get(w.Admin + "/debug/pprof/heap?gc=1&debug=1")
	parts := heapAlloc.FindStringSubmatch(text)
	if err != nil || parts == nil {
		t.Fatalf("asking how much memory weir holds: %v: %.300s", err, text)
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
