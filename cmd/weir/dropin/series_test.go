package dropin_test

import (
	"errors"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// Domains that nobody has configured, and overrides of limits, come from whoever sends requests.
func TestAMillionUnknownDomainsAndOverridesAddNoSeriesAndNoMemory(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t)
	r := startReplica(t, weirBinary, map[string]string{"config.yaml": `
domain: shop
descriptors:
  - key: plan
    value: basic
    descriptors:
      - key: user
        rate_limit: { unit: hour, requests_per_unit: 1000 }
`}, "REDIS_URL="+redis.Addr, "EXPIRATION_JITTER_MAX_SECONDS=0", "REDIS_TIMEOUT=60s")
	r.ready(t)
	domains, perDomain := form(40_000, 1_000_000), form(24, 9)
	flood(t, r, 0, domains/10, perDomain)
	seriesBefore, heapBefore, residentBefore := r.series(t), r.heap(t), r.resident(t)
	began := time.Now()
	flood(t, r, domains/10, domains, perDomain)
	seriesAfter, heapAfter, residentAfter := r.series(t), r.heap(t), r.resident(t)
	t.Logf("%d unknown domains and %d overrides in %v: %d series became %d, %.1f MB of live heap became %.1f, and %.1f resident %.1f",
		domains, domains*perDomain, time.Since(began).Round(time.Second), seriesBefore, seriesAfter, mb(heapBefore), mb(heapAfter),
		mb(residentBefore), mb(residentAfter))
	if seriesAfter != seriesBefore {
		t.Errorf("%d series became %d, want no more once each kind of request was seen", seriesBefore, seriesAfter)
	}
	if grown := heapAfter - heapBefore; grown > 10_000_000 {
		t.Errorf("the live heap grew by %d bytes, want less than 10 MB", grown)
	}
}

// series returns how many series weir has, under its own names and envoyproxy/ratelimit's.
func (r *replica) series(t *testing.T) int {
	t.Helper()
	n := 0
	for _, url := range []string{r.metrics, r.debug + "/metrics"} {
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

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// heap returns how many bytes live in weir's heap, after a collection.
func (r *replica) heap(t *testing.T) int {
	t.Helper()
	text, err := get(r.debug + "/debug/pprof/heap?gc=1&debug=1")
	parts := heapAlloc.FindStringSubmatch(text)
	if err == nil && parts == nil {
		err = errors.New("it does not tell HeapAlloc")
	}
	if err != nil {
		t.Fatalf("asking how much memory weir holds: %v", err)
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// resident returns how many bytes of weir's memory are resident.
func (r *replica) resident(t *testing.T) int {
	t.Helper()
	families, err := scrape(r.debug + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	return int(families["process_resident_memory_bytes"].GetMetric()[0].GetGauge().GetValue())
}

func mb(bytes int) float64 { return float64(bytes) / 1e6 }
