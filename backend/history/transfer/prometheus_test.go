package transfer_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/transfer"
)

// threeWeeks holds hits in buckets of all tiers. Its tiers are shorter than usual: promtool reads all of an export for
// every two hours that have samples.
func threeWeeks(t *testing.T) history.Store {
	t.Helper()
	k := keep()
	k.Ages = [history.Tiers]time.Duration{6 * time.Hour, 30 * time.Hour, 100 * time.Hour, 1000 * 24 * time.Hour}
	store := historytest.NewLedgers(historytest.Options{Retention: k, Now: clock, Step: func(string) {}})
	rng := rand.New(rand.NewPCG(3, 16))
	for o := range history.Outcomes {
		for _, value := range []string{"", "user=ann \"the\\first\"\nof her name", "user=<b>"} {
			id := history.ID{Domain: "shop", Path: "user/path=%2Fpay", Outcome: history.Outcome(o), Value: value}
			for range 40 {
				age := rng.Int64N([]int64{300, 2000, 5000, 30000}[rng.IntN(4)])
				historytest.Count(t, store, history.Increment{ID: id, Minute: now.Unix()/60 - age, Hits: 1 + rng.Uint64N(1<<uint(rng.IntN(40)))})
			}
		}
	}
	historytest.Downsample(t, store, now)
	return store
}

// instant asks a Prometheus for the values of an expression at a moment.
func instant(t *testing.T, prometheus, expression string, at int64) map[history.ID]uint64 {
	t.Helper()
	answer, err := http.Get(prometheus + "/api/v1/query?" + url.Values{"query": {expression}, "time": {strconv.FormatInt(at, 10)}}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var a struct {
		Error string
		Data  struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&a); err != nil || a.Error != "" {
		t.Fatalf("%s: %v %s", expression, err, a.Error)
	}
	values := make(map[history.ID]uint64)
	for _, r := range a.Data.Result {
		id := history.ID{Domain: r.Metric["domain"], Path: r.Metric["path"], Value: r.Metric["value"]}
		named := map[string]string{"weir_near_hits_total": "near"}[r.Metric["__name__"]]
		id.Outcome, err = history.ParseOutcome(cmp.Or(named, r.Metric["outcome"]))
		value, bad := strconv.ParseFloat(r.Value[1].(string), 64)
		if err = errors.Join(err, bad); err != nil {
			t.Fatal(err)
		}
		values[id] = uint64(value)
	}
	return values
}

// Prometheus 2 counts a window's beginning as inside, so that increase() is not compared: instant values are.
func TestPrometheusReadsTheExportedValues(t *testing.T) {
	t.Parallel()
	store := threeWeeks(t)
	prometheus := process.PrometheusOver(t, write(t, store, transfer.OpenMetrics))
	const each = `{__name__=~"weir_.*_total"}`
	samples := make(map[history.ID][]history.Sample)
	ends := make(map[history.ID]uint64)
	var moments []int64
	for _, s := range all(t, store) {
		samples[s.ID] = s.AppendSamples(nil, now.Unix())
		ends[s.ID] = s.Lifetime
		for i, sample := range samples[s.ID] {
			if i%7 == 0 {
				moments = append(moments, sample.At)
			}
		}
	}
	const lookback = 5 * 60
	for _, at := range append(moments, now.Unix()) {
		want := make(map[history.ID]uint64)
		for id, all := range samples {
			for _, sample := range all {
				if sample.At <= at && sample.At >= at-lookback {
					want[id] = sample.Total
				}
			}
		}
		got := instant(t, prometheus, each, at)
		for id := range samples {
			if got[id] != want[id] {
				t.Fatalf("at %d Prometheus has %d for %+v, want %d: what it had counted", at, got[id], id, want[id])
			}
		}
	}
	if got := instant(t, prometheus, `last_over_time(`+each+`[100d])`, now.Unix()); fmt.Sprint(got) != fmt.Sprint(ends) {
		t.Errorf("in the end Prometheus has %v, want the lifetimes %v", got, ends)
	}
	t.Logf("%d series, %d moments", len(samples), len(moments))
}
