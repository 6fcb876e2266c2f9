package simulatecmd

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
	"github.com/weirproxy/weir/descriptors"
)

// recorded is a request that a running weir has answered, and whether it was denied.
type recorded struct {
	request
	denied bool
}

// record asks a weir one request after the other. All of a second is one bucket to the rules here, so that a verdict does
// not depend on when in it the store looked at its clock, if the whole call lies in one. Where one does not, because
// the machine is slow, it is left out, and all users get other names.
func record(t *testing.T, w *weirtest.Weir, n int) (all []recorded) {
	t.Helper()
	client, random, epoch := w.Client(t), rand.New(rand.NewPCG(7, 46)), 0
	const clear = 30 * time.Millisecond // from the end of a second no call is begun
	for len(all) < n {
		if left := time.Second - time.Since(time.Now().Truncate(time.Second)); left < clear {
			time.Sleep(left)
		}
		plan := []string{"sliding", "fixed", "both"}[random.IntN(3)]
		user := fmt.Sprintf("u%d-%d", random.IntN(1+random.IntN(200)), epoch)
		hits, sent := 1+random.Uint32N(3), time.Now()
		answer, err := client.Forward(&rlspb.RateLimitRequest{Domain: "shop", HitsAddend: hits,
			Descriptors: []*descriptorpb.RateLimitDescriptor{weirtest.Describe("plan", plan, "user", user)}})
		if err != nil {
			t.Fatal(err)
		}
		if time.Now().Unix() != sent.Unix() {
			epoch++
			continue
		}
		d := descriptors.Descriptor{{Key: "plan", Value: plan}, {Key: "user", Value: user}}
		all = append(all, recorded{request{at: sent, domain: "shop", hits: hits, descriptors: []descriptors.Descriptor{d}},
			answer.OverallCode == rlspb.RateLimitResponse_OVER_LIMIT})
	}
	return all
}

func TestSimulateAgreesWithARunningWeir(t *testing.T) {
	n := 100_000
	switch {
	case testing.Short():
		n = 3000
	case process.Raced(): // where each takes many times as long, and shows no race that fewer do not
		n = 20_000
	}
	// Three hits exceed fixed at any speed of the machine, so that enough requests are denied.
	rules := weirtest.Rule("sliding", "unit: minute, requests_per_unit: 20") +
		weirtest.Rule("fixed", "unit: second, unit_multiplier: 2, requests_per_unit: 2, algorithm: fixed_window") +
		`  - {key: plan, value: both, descriptors: [{key: user, rate_limits: [{unit: minute, requests_per_unit: 9}, {unit: second, unit_multiplier: 15, requests_per_unit: 4}]}]}
`
	for _, store := range []string{"memory", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			settings := []string{"LEASES=false"}
			if store == "redis" {
				settings = append(settings, "REDIS_URL="+redistest.Single(t).Addr, weirtest.PatientRedis)
			}
			all := record(t, weirtest.Serve(t, rules, settings...), n)
			s := newSimulation("", fixture.Config(t, "domain: shop\ndescriptors:\n"+rules), 0)
			defer s.store.Close()
			asked, denied, differing := 0, 0, 0
			err := run(t.Context(), func(yield func(request) error) error {
				for i := range all {
					if err := yield(all[i].request); err != nil {
						return err
					}
				}
				return nil
			}, func(batch []request) {
				for i := range batch {
					if s.over[i] {
						denied++
					}
					if s.over[i] != all[asked].denied {
						differing++
						t.Logf("%s with %d hits at %v: simulated is denied %v", batch[i].text(), batch[i].hits, batch[i].at, s.over[i])
					}
					asked++
				}
			}, s)
			if err != nil || asked != n || differing > 0 || denied < n/10 || denied > n*9/10 {
				t.Errorf("of %d requests %d are decided differently, %d are denied, %v; want every verdict the same", asked, differing, denied, err)
			}
		})
	}
}
