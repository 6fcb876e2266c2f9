package dropin_test

import (
	"fmt"
	"testing"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// plenty is a limit that nobody reaches.
const plenty = 4_000_000_000

func TestEnvoyGatewayIsLimitedWithNothingChangedButTheImage(t *testing.T) {
	onNode(t, func(t *testing.T) {
		g := startGateway(t)
		g.proxy.Refuse()
		g.startWeir(t)
		g.weir.AwaitReady(t, func() error { return weirtest.WantStatus(gatewayHealth, 500) }) // healthy it is not, without Redis
		g.proxy.Accept(t)
		g.weir.AwaitReady(t, func() error { return weirtest.WantStatus(gatewayHealth, 200) }) // though the control plane is away still
		g.envoy.wantStatuses(t, "before there are limits, where Envoy decides", "/inside", 200)
		g.startControl(t)

		version := g.control.set(t)
		weirtest.Eventually(t, "a list of no domains is accepted", func() error { return g.control.accepted(version) })
		g.envoy.wantStatuses(t, "without a limit", "/inside", 200)
		g.apply(t, insideRoute.limit(3), outsideRoute.limit(3), allRoute.limit(plenty))
		g.envoy.wantStatuses(t, "3 an hour for addresses outside of 192.0.2.0/24", "/outside", 200, 200, 200, 429)
		limit := g.envoy.wantStatuses(t, "3 an hour for all addresses", "/inside", 200, 200, 200, 429, 429, 429)
		if limit != "3, 3;w=3600" {
			t.Errorf("Envoy's answer of 429 says that the limit is %q", limit)
		}
		wantGatewaySeries(t)
		line := func(r route, n int) string {
			last := r.limit(0).Descriptors[0]
			return fmt.Sprintf("%s.%s_%s.%s_%s: unit=HOUR requests_per_unit=%d, shadow_mode: false, quota_mode: false",
				gatewayDomain, r.Name, r.Name, last.Key, last.Value, n)
		}
		wantRules(t, "egctl prints the limits", gatewayRules, line(insideRoute, 3), line(outsideRoute, 3), line(allRoute, plenty))
		for r, want := range map[route]int{insideRoute: 6, outsideRoute: 4} {
			if got := counted(t, g.redis, r.stem()); got != want {
				t.Errorf("Redis holds a count of %d under %s*, want the %d requests that there were", got, r.stem(), want)
			}
		}
		g.envoy.wantErrors(t, 1) // before there were limits

		g.proxy.Refuse()
		g.proxy.ResetAll()
		g.envoy.wantStatuses(t, "without Redis, where Envoy decides", "/all", 200)
		g.envoy.wantErrors(t, 2)
		if err := weirtest.WantStatus(gatewayHealth, 200); err != nil {
			t.Errorf("Redis is gone: %v; its pods would all be restarted for nothing", err)
		}
		g.weir.Terminate(t)
		if code := g.weir.ExitCode(t); code != 0 {
			t.Errorf("after SIGTERM it ends with exit code %d, want 0", code)
		}
	})
}

// wantGatewaySeries wants the series that Envoy Gateway's own tests and dashboard ask for.
func wantGatewaySeries(t *testing.T) {
	t.Helper()
	weirtest.Eventually(t, "each request is counted where Prometheus looks", func() error {
		metrics, err := weirtest.Scrape(gatewayMetrics)
		if err != nil {
			return err
		}
		const all, other = "masked_remote_address_0_0_0_0/0", "masked_remote_address_invert_192_0_2_0/24"
		for _, want := range []struct {
			name  string
			route route
			key2  string
			value float64
		}{
			{"over_limit", insideRoute, all, 3}, {"total_hits", insideRoute, all, 6},
			{"within_limit", insideRoute, all, 3}, {"near_limit", insideRoute, all, 1},
			{"over_limit", outsideRoute, other, 1}, {"total_hits", outsideRoute, other, 4},
		} {
			series := fmt.Sprintf("ratelimit_service_rate_limit_%s{domain=%q,key1=%q,key2=%q}", want.name, gatewayDomain,
				want.route.Name+"_"+want.route.Name, want.key2)
			if got, there := metrics[series]; !there || got != want.value {
				return fmt.Errorf("%s is %v (there: %v), want %v of\n%v", series, got, there, want.value, metrics)
			}
		}
		if n := metrics["ratelimit_service_config_load_success"]; n < 2 {
			return fmt.Errorf("ratelimit_service_config_load_success is %v, want the 2 snapshots", n)
		}
		return nil
	})
}
