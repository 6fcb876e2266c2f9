package charttest

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/weirproxy/weir/backend/backendtest/certstest"
	"github.com/weirproxy/weir/backend/backendtest/memcachedtest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// A choice is one of the values that the schema names for a key, or that a switch can have.
type choice struct {
	path  []string
	value any
}

// String is the choice as helm --set has it.
func (c choice) String() string { return fmt.Sprintf("%s=%v", strings.Join(c.path, "."), c.value) }

// choicesBelow are the choices of a schema's object and of all below it.
func choicesBelow(schema, definitions map[string]any, path []string) (found []choice) {
	if name, is := schema["$ref"].(string); is {
		schema, _ = definitions[strings.TrimPrefix(name, "#/definitions/")].(map[string]any)
	}
	values, _ := schema["enum"].([]any)
	if schema["type"] == "boolean" || slices.Equal(list(schema["type"]), []any{"boolean", "null"}) {
		values = []any{true, false}
	}
	for _, value := range values {
		found = append(found, choice{path, value})
	}
	if items, is := schema["items"].(map[string]any); is {
		for _, of := range list(items["enum"]) {
			found = append(found, choice{path, []any{of}})
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		found = append(found, choicesBelow(properties[name].(map[string]any), definitions, append(slices.Clone(path), name))...)
	}
	return found
}

func list(value any) []any {
	l, _ := value.([]any) // what is no list has no elements
	return l
}

// premises are what a choice needs beside it, of all choices that begin so, the later before the earlier. Names in capitals
// are servers.
var premises = []struct{ of, values string }{
	{"backend=redis", "redis: {addresses: [PLAIN]}"},
	{"backend=memcache", "memcached: {addresses: [MEMCACHED], timeout: 1m}"},
	{"memcached", "memcached: {addresses: [MEMCACHED], timeout: 1m}"},
	{"memcached.tls", "memcached: {addresses: [MTLS], tls: {enabled: true, existingSecret: memcached-tls, certKey: tls.crt, keyKey: tls.key}}"},
	{"memcached.tls.enabled=false", "memcached: {addresses: [MEMCACHED], tls: {existingSecret: '', certKey: '', keyKey: ''}}"},
	{"keyFormat", "redis: {addresses: [PLAIN]}"},
	{"calendarMonths", "redis: {addresses: [PLAIN]}"},
	{"kind", "redis: {addresses: [PLAIN]}"},
	{"autoscaling", "redis: {addresses: [PLAIN]}"},
	{"service.externalTrafficPolicy", "service: {type: LoadBalancer}"},
	{"ingress.enabled=true", "ingress: {hosts: [weir.test]}"},
	{"httpRoute.enabled=true", "httpRoute: {parentRefs: [{name: gateway}], hostnames: [weir.test]}"},
	{"history.downsample.by", "redis: {addresses: [PLAIN]}\nhistory: {enabled: true}"},
	{"redis", "redis: {addresses: [PLAIN]}"},
	{"redis.type=sentinel", "redis: {addresses: [SENTINEL], masterName: weir}"},
	{"redis.type=cluster", "redis: {addresses: [CLUSTER]}"},
	{"redis.onNodeLoss", "redis: {type: ring}"},
	{"redis.tls", "redis: {addresses: [TLS], tls: {enabled: true, existingSecret: redis-tls}}"},
	{"redis.tls.enabled=false", "redis: {addresses: [PLAIN], tls: {existingSecret: ''}}"},
	{"redis.perSecond", "redis: {perSecond: {enabled: true, addresses: [PLAIN], auth: {existingSecret: redis-credentials}}}"},
	{"redis.perSecond.type=sentinel", "redis: {perSecond: {addresses: [SENTINEL], masterName: weir}}"},
	{"redis.perSecond.type=cluster", "redis: {perSecond: {addresses: [CLUSTER]}}"},
	{"redis.perSecond.tls.enabled=true", "redis: {perSecond: {addresses: [TLS]}, addresses: [TLS], tls: {enabled: true, existingSecret: redis-tls}}"},
	{"redis.perSecond.enabled=false", "redis: {perSecond: {addresses: []}}"},
	{"grpc.tls.enabled=true", "grpc: {tls: {existingSecret: grpc-tls}}"},
	{"grpc.tls.certificate", "grpc: {tls: {enabled: true, existingSecret: grpc-tls, certificate: {issuer: {name: limits}}}}"},
	{"statistics.prometheus", "statistics: {prometheus: {enabled: true}}"},
	{"statistics.statsd", "statistics: {statsd: {enabled: true, host: 127.0.0.1}}"},
	{"telemetry", "telemetry: {endpoint: 'http://127.0.0.1:1'}"},
	{"historyServer", "redis: {addresses: [PLAIN]}\nhistory: {enabled: true}"},
	{"monitoring.dataSource", "history: {enabled: true}"},
	{"monitoring.podMonitor", "monitoring: {serviceMonitor: {enabled: false}}"},
	{"sidecar", "mode: sidecar"},
}

// Whoever picks a value that the schema offers gets a weir that becomes ready and limits, with the limits of the example.
// What the container is given decides; so choices that give it the same are made once. In the short form every other
// choice is made under the incumbent's name, else each is made under both.
func TestEveryEnumValueStartsAndLimits(t *testing.T) {
	t.Parallel()
	schema := valuesOf(t, readText(t, filepath.Join(chartDir, "values.schema.json")))
	choices := choicesBelow(schema, schema["definitions"].(map[string]any), nil)
	if len(choices) < 100 {
		t.Fatalf("the schema has only %d values to choose: this test looks in the wrong place", len(choices))
	}
	a := certstest.New(t, "authority")
	servers, secrets := startServers(t)
	cert, key := a.Issue(t, "weir", "127.0.0.1")
	secrets = append(secrets, secretOf("grpc-tls", string(a.PEM), string(cert), string(key)))
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(a.PEM)
	started := make(map[string]bool)
	for i, c := range choices {
		// Without a server of limits it is not ready: descriptors/xds tests that, and TestValuesReachTheirObjects the variables.
		if c.String() == "xds.tls.enabled=true" {
			continue
		}
		programs := []string{"weir", "ratelimit"}
		if testing.Short() {
			programs = programs[i%2 : i%2+1]
		}
		for _, program := range programs {
			values := c.values(t, program, servers)
			values["extraObjects"] = secrets
			var r *Rendered
			if values["mode"] == "sidecar" {
				r = renderBeside(t, map[string]any{"weir": values})
			} else {
				r = render(t, "weir", values)
			}
			pod := r.pod(t, "server")
			what := string(toJSON(t, []any{pod.Containers, pod.InitContainers}))
			if started[what] {
				continue
			}
			started[what] = true
			user := fmt.Sprint("user", len(started)) // who has asked no other weir that counts in the same Redis
			t.Run(fmt.Sprint(program, " ", c), func(t *testing.T) {
				t.Parallel()
				w := startPod(t, r.Objects, pod)
				transport := insecure.NewCredentials()
				if w.env["GRPC_SERVER_USE_TLS"] == "true" {
					transport = credentials.NewTLS(&tls.Config{RootCAs: known})
				}
				w.wantTenFor(t, user, transport)
			})
		}
	}
	if len(started) < 40 {
		t.Errorf("only %d different weirs were started: most values must reach it", len(started))
	}
}

// values are those of a choice, with its premises.
func (c choice) values(t *testing.T, program string, servers *strings.Replacer) map[string]any {
	t.Helper()
	values := map[string]any{"program": program}
	premised := "redis: {auth: {existingSecret: redis-credentials}, timeout: 1m}\n" // a busy machine is no reason to do without Redis
	merge := func(text string) {
		values = loader.MergeMaps(values, valuesOf(t, servers.Replace(text)))
	}
	for _, p := range premises {
		if name := c.String(); name == p.of || strings.HasPrefix(name, p.of+".") || strings.HasPrefix(name, p.of+"=") {
			if strings.Contains(p.values, "redis: {") {
				merge(premised)
			}
			merge(p.values)
		}
	}
	return loader.MergeMaps(values, under(c.path, c.value))
}

// wantTenFor asks for a user of the example, who has ten a minute.
func (w *weir) wantTenFor(t *testing.T, user string, transport credentials.TransportCredentials) {
	t.Helper()
	target := w.grpc
	if filepath.IsAbs(target) {
		target = "unix:" + target
	}
	client := weirtest.Dial(t, target, grpc.WithTransportCredentials(transport))
	var answer *ratelimit.RateLimitResponse
	// As ratelimit it is ready before a cluster has told who owns which key; nothing is counted until then.
	weirtest.Eventually(t, "weir gives a verdict", func() (err error) {
		answer, err = client.Ask("shop", weirtest.Describe("user", user))
		return err
	})
	status := answer.Statuses[0]
	if answer.OverallCode != ratelimit.RateLimitResponse_OK || status.CurrentLimit.GetRequestsPerUnit() != 10 || status.LimitRemaining != 9 {
		t.Errorf("the first request of a user is answered %v, want OK and 9 left of 10", answer)
	}
}

// secretOf is a Secret as cert-manager makes it, of PEM.
func secretOf(name, authority, cert, key string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "namespace": "limits"},
		"stringData": map[string]any{"ca.crt": authority, "tls.crt": cert, "tls.key": key}}
}

// startServers starts what the choices of redis need, which are one server, one by TLS, sentinels and a cluster of one,
// and gives their addresses by name, and the Secrets by which TLS is talked.
func startServers(t *testing.T) (*strings.Replacer, []any) {
	t.Helper()
	memcached := memcachedtest.StartTLS(t)
	plain := startRedis(t)
	byTLS := startRedis(t, redistest.WithTLS(), redistest.WithConfig("tls-auth-clients no"))
	cluster := startRedis(t, redistest.WithConfig("cluster-enabled yes", fmt.Sprint("cluster-port ", process.Port(t))))
	if err := cluster.Client().ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	sentinel := redistest.Sentinel(t, redistest.WithPassword("secret")).Sentinels[0]
	return strings.NewReplacer("PLAIN", plain.Addr, "TLS", byTLS.Addr, "CLUSTER", cluster.Addr,
			"SENTINEL", sentinel.Addr, "MEMCACHED", memcachedtest.Start(t).Addr, "MTLS", memcached.Addr),
		[]any{secretOf("redis-tls", readText(t, byTLS.TLS.CA), "", ""), secretOf("memcached-tls",
			readText(t, memcached.TLS.CA), readText(t, memcached.TLS.CA), readText(t, memcached.TLS.Key))}
}
