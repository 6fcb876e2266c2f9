package engine

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// Whatever is asked, there is an answer or an error, soon, and nothing panics.
func FuzzQuery(f *testing.F) {
	for _, text := range []string{`1+1`, `weir_hits_total`, `rate(weir_hits_total[5m])`, `increase((weir_hits_total{value!=""}[1d]) )`,
		`sum by (path) (rate({__name__=~"weir.*"}[1h:5m] offset 1d))`, `topk(3, weir_hits_total @ end())`, `max_over_time(weir_hits_peak[1d] offset 1d)`,
		`max_over_time(weir_hits_peak[30m])`, `weir_limit_requests / on(domain,path) group_left weir_hits_total`,
		`delta(weir_hits_total[1d] anchored)`, `rate(weir_hits_total[5m:])`, `absent_over_time(weir_near_hits_total{domain="x"}[1w])`,
		`holt_winters(weir_hits_total[1d], 0.5, 0.5)`, `"text"`,
		`weir_near_hits_total @ -9000000000 offset -300y`, `{value="\"}\n"}`, `rate(rate(x)[1d:1m])`, `timestamp(weir_hits_total)`,
		`max_over_time(vector(1)[100y:1s])`, `histogram_quantile(0.9, rate(weir_hits_total[5m]))`, `irate(weir_hits_total[3d])`, `-`} {
		for _, step := range []int64{0, 1, 60_000, 86_400_000} {
			f.Add(text, someday.UnixMilli(), int64(86_400_000), step)
		}
		f.Add(text, int64(4000), int64(1000), int64(1000))
	}
	p := newPast(f, history.DefaultRetention())
	r := dice(f)
	p.count(p.scatter(r, 300, 100)...)
	historytest.Downsample(p.t, p.store, p.now())
	var log bytes.Buffer
	e := p.engine(func(c *Config) {
		c.Log, c.MaxSamples, c.Timeout = slog.New(slog.NewTextHandler(&log, nil)), 20_000, 5*time.Second
		c.Rules = func() []*descriptors.Rule {
			return []*descriptors.Rule{{Domain: "shop", Path: "user", Limits: []descriptors.Limit{{Requests: 10, Window: time.Minute}}}}
		}
	})
	f.Fuzz(func(t *testing.T, text string, at, length, step int64) {
		log.Reset()
		exec := func(q promql.Query, err error) {
			if err != nil {
				return
			}
			defer q.Close()
			result := q.Exec(context.Background())
			result.Warnings.AsStrings(text, 10, 10)
			_ = result.String()
		}
		from := time.UnixMilli(at)
		exec(e.Instant(context.Background(), text, from))
		step = max(step, 1, length/11_000)
		exec(e.Range(context.Background(), text, from, from.Add(time.Duration(length)*time.Millisecond), time.Duration(step)*time.Millisecond))
		if bytes.Contains(log.Bytes(), []byte("panic")) {
			t.Errorf("%q made something panic: %s", text, log.String())
		}
	})
}
