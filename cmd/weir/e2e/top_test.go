package e2e_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// valuesKept is what the history has under each value of a rule, __other__ among them.
func valuesKept(t *testing.T, w *weirtest.Weir) (hits map[string]uint64, sum uint64) {
	t.Helper()
	var a struct {
		Total uint64
		Top   []struct {
			Value string
			Hits  uint64
		}
	}
	if err := weirtest.GetJSON(w.Admin+"/api/v1/history/top?domain=shop&n=1000", &a); err != nil {
		t.Fatal(err)
	}
	hits = make(map[string]uint64)
	for _, row := range a.Top {
		hits[row.Value] += row.Hits
	}
	return hits, a.Total
}

// Three weirs share a history; one is killed with hits that it has not brought there. Nothing else is missing, no value
// has more than it had, and those that took the most are listed.
func TestFleetTopSurvivesAKilledReplica(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t)
	fleet := make([]*weirtest.Weir, 3)
	for i := range fleet {
		fleet[i] = weirtest.Serve(t, "- {key: user, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 1000000}}\n",
			"REDIS_URL="+redis.Addr, weirtest.PatientRedis, "HISTORY_FLUSH_INTERVAL=1s", "DRAIN_DELAY=0s", "HISTORY_VALUES=20")
	}
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 1)), 1.3, 1, 10_000)
	exact, total := make(map[string]uint64), uint64(0)
	ask := func(requests int, of ...*weirtest.Weir) { // of each, in turn
		var clients []*weirtest.Client
		for _, w := range of {
			clients = append(clients, w.Client(t))
		}
		for n := range requests * len(of) {
			var request []*descriptorpb.RateLimitDescriptor
			for range 16 {
				value := fmt.Sprint("u", zipf.Uint64())
				exact["user="+value]++
				total++
				request = append(request, weirtest.Describe("user", value))
			}
			if _, err := clients[n%len(of)].Ask("shop", request...); err != nil {
				t.Fatal(err)
			}
		}
	}
	ask(150, fleet...)
	weirtest.Eventually(t, "all hits are in the history", func() error {
		if _, sum := valuesKept(t, fleet[0]); sum != total {
			return fmt.Errorf("%d of %d", sum, total)
		}
		return nil
	})
	ask(20, fleet[2])
	fleet[2].Kill() // with 320 hits, at most
	mayLack := uint64(20 * 16)
	fleet[2].Restart(t)
	ask(50, fleet...)
	var hits map[string]uint64
	weirtest.Eventually(t, "all other hits are in the history", func() (err error) {
		var sum uint64
		if hits, sum = valuesKept(t, fleet[0]); sum > total || sum < total-mayLack {
			err = fmt.Errorf("%d of %d", sum, total)
		}
		return err
	})
	for value, n := range hits {
		if value != "__other__" && n > exact[value] {
			t.Errorf("%s had %d hits, and the history has %d", value, exact[value], n)
		}
	}
	if len(hits) > 3*20+1 {
		t.Errorf("%d values have series, want at most 20 of each weir, though they begin together", len(hits))
	}
	most := slices.SortedFunc(maps.Keys(exact), func(a, b string) int { return cmp.Compare(exact[b], exact[a]) })[:5]
	wantCommands(t, fleet[1],
		wanted{"counters top --from -1h -n 10", 0, append([]string{"all weirs", "A value may have had more"}, most...)},
		wanted{"counters top --path user -n 10", 0, append([]string{"this weir alone", "1000000/hour"}, most...)},
		wanted{"history verify", 0, []string{"each holds exactly what it ever counted"}})
}
