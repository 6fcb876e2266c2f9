package dropin_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	configpb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/weirproxy/weir/backend/backendtest/certstest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// plenty is a limit that nobody reaches.
const plenty = 4_000_000_000

func TestEnvoyGatewayWorksWithTheImageSwapped(t *testing.T) {
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
		g.weir.Drain(t)
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

// gatewayEnvironment is what Envoy Gateway 1.9 sets, in its order.
var gatewayEnvironment = []string{
	"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_IGNOREDOTFILES=true", "RUNTIME_WATCH_ROOT=false",
	"LOG_LEVEL=info", "USE_STATSD=false",
	"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=envoy-gateway:18001", "CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit",
	"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=/certs/tls.crt", "GRPC_SERVER_TLS_KEY=/certs/tls.key",
	"GRPC_SERVER_TLS_CA_CERT=/certs/ca.crt",
	"CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT=/certs/tls.crt",
	"CONFIG_GRPC_XDS_CLIENT_TLS_KEY=/certs/tls.key", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT=/certs/ca.crt",
	"FORCE_START_WITHOUT_INITIAL_CONFIG=true",
	"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=redis.redis.svc:6379",
	"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=:19001", "PROMETHEUS_MAPPER_YAML=/etc/statsd-exporter/conf.yaml",
}

// Envoy Gateway's ports, and its names for one listener's domain.
const (
	gatewayHealth  = "http://127.0.0.1:8080/healthcheck"
	gatewayRules   = "http://127.0.0.1:6070/rlconfig"
	gatewayMetrics = "http://127.0.0.1:19001/metrics"
	gatewayDomain  = "default/eg/http"
)

// route is an HTTPRoute with one rule, for addresses within a CIDR or not, or for all requests.
type route struct {
	Name, Path   string
	CIDR, Prefix string
	Length       int
	Invert       bool
}

var (
	insideRoute  = route{Name: gatewayRoute("inside"), Path: "/inside", CIDR: "0.0.0.0/0", Prefix: "0.0.0.0"}
	outsideRoute = route{Name: gatewayRoute("outside"), Path: "/outside", CIDR: "192.0.2.0/24", Prefix: "192.0.2.0", Length: 24, Invert: true}
	allRoute     = route{Name: gatewayRoute("all"), Path: "/all"}
)

func gatewayRoute(name string) string {
	return "httproute/default/" + name + "/rule/0/match/0/www_example_com"
}

// limit returns what the rate-limit service is told of a route.
func (r route) limit(requests uint32) *configpb.RateLimitDescriptor {
	rule, value := "rule-0-match--1", "rule-0-match--1"
	if r.CIDR != "" {
		rule, value = "masked_remote_address", strings.Repeat("invert:", map[bool]int{true: 1}[r.Invert])+r.CIDR
	}
	return &configpb.RateLimitDescriptor{Key: r.Name, Value: r.Name, Descriptors: []*configpb.RateLimitDescriptor{{
		Key: rule, Value: value, RateLimit: &configpb.RateLimitPolicy{RequestsPerUnit: requests, Unit: configpb.RateLimitUnit_HOUR},
	}}}
}

// gateway is Envoy Gateway: its control plane, its Envoy, its Redis and, in the place of ratelimit, weir.
type gateway struct {
	control *controlPlane
	envoy   *envoy
	redis   *redistest.Server
	proxy   *redistest.FaultProxy // before Redis, at its port
	weir    *process.Process

	authority *certstest.Authority
}

// startGateway starts all but the control plane and weir.
func startGateway(t *testing.T) *gateway {
	t.Helper()
	weirtest.AwaitRoomInHour()
	g := &gateway{authority: certstest.New(t, "Envoy Gateway"), redis: redistest.Single(t)}
	g.proxy = redistest.ProxyAt(t, "127.0.0.1:6379", g.redis.Addr)
	g.envoy = startEnvoy(t, "gateway.yaml.tmpl", map[string]any{
		"Domain": gatewayDomain, "FailureModeDeny": false, "Routes": []route{insideRoute, outsideRoute, allRoute},
		"Secret": g.secret(t, "envoy"),
	})
	return g
}

// secret returns a mounted Secret with a new certificate for these names, its key, and the authority.
func (g *gateway) secret(t *testing.T, names ...string) (dir string) {
	t.Helper()
	cert, key := g.authority.Issue(t, names...)
	dir = t.TempDir()
	certstest.Mount(t, dir, map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": g.authority.PEM})
	return dir
}

// startControl starts the control plane, which is silent still, and talks to clients of the authority alone.
func (g *gateway) startControl(t *testing.T) {
	t.Helper()
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(g.authority.PEM)
	g.control = startControlPlane(t, "127.0.0.1:18001", "envoy-ratelimit", &tls.Config{
		Certificates: []tls.Certificate{g.authority.KeyPair(t, "envoy-gateway")}, ClientCAs: trusted,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}})
}

// startWeir starts weir as Envoy Gateway does, in a Deployment whose container is ratelimit's but for the image.
func (g *gateway) startWeir(t *testing.T) {
	t.Helper()
	secret := g.secret(t, "envoy-ratelimit", "envoy-ratelimit.envoy-gateway-system.svc.cluster.local")
	g.weir = container{
		Host: "envoy-ratelimit-6f5d7c9b8-x2v4q", User: 65534, Command: []string{"/bin/ratelimit"},
		Mounts: map[string]string{"/certs": secret, "/etc/statsd-exporter": t.TempDir()},
	}.start(t, kubernetes(slices.Clone(gatewayEnvironment), "envoy-gateway:18000", "envoy-ratelimit:8081"))
}

// apply gives weir the limits of the gateway's domain, and waits until it has them.
func (g *gateway) apply(t *testing.T, routes ...*configpb.RateLimitDescriptor) {
	t.Helper()
	version := g.control.set(t, &configpb.RateLimitConfig{Name: gatewayDomain, Domain: gatewayDomain, Descriptors: routes})
	weirtest.Eventually(t, "a snapshot is accepted", func() error { return errors.Join(g.weir.Ended(), g.control.accepted(version)) })
}

// stem returns what the keys of a route's counts begin with, in the words of envoyproxy/ratelimit.
func (r route) stem() string {
	last := r.limit(0).Descriptors[0]
	return fmt.Sprintf("%s_%s_%s_%s_%s_", gatewayDomain, r.Name, r.Name, last.Key, last.Value)
}
