package ratelimit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/ratelimit"
	"github.com/weirproxy/weir/server/ratelimit/rulestats"
	"github.com/weirproxy/weir/server/stats"
)

// rules has rules of one, two and three levels, two that differ only in the third, and one with values.
const rules = `
domain: default/eg/http
descriptors:
- {key: user, rate_limit: &limit {requests_per_unit: 20, unit: year, algorithm: fixed_window}}
- {key: tenant, value_to_metric: true, rate_limit: *limit}
- {key: dark, shadow_mode: true, rate_limit: *limit}
- key: route
  value: r1
  descriptors:
  - {key: masked_remote_address, value: 0.0.0.0/0, rate_limit: *limit}
  - key: method
    value: GET
    descriptors:
    - {key: path, value: /a, rate_limit: *limit}
    - {key: path, value: /b, rate_limit: *limit}
`

// world has a limiter and its statistics.
type world struct {
	limiter    *limit.Limiter
	recorder   *hits.Recorder
	metrics    *stats.Metrics
	statistics *ratelimit.Statistics
	calls      [ratelimit.Methods]uint64
}

func newWorld(t testing.TB, countAsRatelimit bool) *world {
	t.Helper()
	w := &world{recorder: hits.New(0), metrics: stats.New("test")}
	if countAsRatelimit {
		w.recorder.Ratelimit = rulestats.New(false)
	}
	w.statistics = &ratelimit.Statistics{Rules: w.recorder.Ratelimit, Requests: w.metrics.Requests, ConfigLoads: w.metrics.ConfigLoads,
		Gauges: map[string]func() uint64{"ratelimit.localcache.entryCount": func() uint64 { return 7 }}}
	w.statistics.Calls = func(m ratelimit.Method) uint64 { return w.calls[m] }
	w.limiter = limit.New(fixture.Memory(t, nil), limit.Options{Algorithm: descriptors.FixedWindow, NearRatio: 0.8}, w.recorder)
	w.limiter.Apply(fixture.Config(t, rules))
	w.metrics.ConfigApplied(time.Now())
	return w
}

// ask requests hits for descriptors, each written as k=v,k=v.
func (w *world) ask(t testing.TB, hits uint32, written ...string) {
	t.Helper()
	w.decide(t, limit.Request{Domain: "default/eg/http", Hits: hits, Descriptors: read(t, written...)})
}

func read(t testing.TB, written ...string) (all []limit.Descriptor) {
	t.Helper()
	for _, text := range written {
		d, err := descriptors.ParseDescriptor(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, limit.Descriptor{Entries: d})
	}
	return all
}

func (w *world) decide(t testing.TB, r limit.Request) {
	c := &limit.Call{Request: r}
	err := w.limiter.Decide(context.Background(), c)
	if err != nil && !errors.Is(err, limit.ErrNoDescriptors) {
		t.Error(err)
	}
	w.metrics.Observe(c.Counted(), time.Millisecond)
	w.calls[ratelimit.ShouldRateLimit]++
}
