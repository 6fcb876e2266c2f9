package charttest

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/connection_limit/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/ohler55/ojg/jp"
	"github.com/ohler55/ojg/oj"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// translated reads a resource that Envoy Gateway's translator has made, of which its module's own tests tell.
func translated[M proto.Message](t *testing.T, file, name string, into M) M {
	t.Helper()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/envoyproxy/gateway").Output()
	if err != nil {
		t.Fatalf("looking for Envoy Gateway's module: %v", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(module)), "internal", "xds", "translator", "testdata", "out", "xds-ir")
	resources := objectsIn(t, file, "resources:\n"+readText(t, filepath.Join(dir, file)))[0]
	return read(t, name+" in "+file, resources.At("resources", name), into)
}

// patched applies to a resource what an EnvoyPatchPolicy has for it, as Envoy Gateway does: with the libraries that it
// uses, and what a jsonPath finds found before any of it is changed.
func patched[M proto.Message](t *testing.T, policy Object, name string, from, into M) M {
	t.Helper()
	content, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	kind := "type.googleapis.com/" + string(from.ProtoReflect().Descriptor().FullName())
	found := false
	for _, patch := range policy.At("spec", "jsonPatches").([]any) {
		p := Object{Tree: patch.(map[string]any)}
		if text(p.At("type")) != kind || text(p.At("name")) != name {
			continue
		}
		found = true
		for _, pointer := range pointers(t, content, p) {
			operation := map[string]any{"op": p.At("operation", "op"), "path": pointer, "value": p.At("operation", "value")}
			decoded, err := jsonpatch.DecodePatch(toJSON(t, []any{operation}))
			if err != nil {
				t.Fatal(err)
			}
			options := jsonpatch.NewApplyOptions()
			options.EnsurePathExistsOnAdd = true
			if content, err = decoded.ApplyWithOptions(content, options); err != nil {
				t.Fatalf("the patch of %s at %s: %v", name, pointer, err)
			}
		}
	}
	if !found {
		t.Fatalf("the policy has no patch of %s %q", kind, name)
	}
	return read(t, name, json.RawMessage(content), into)
}

// pointers are the places in a resource that a patch is for.
func pointers(t *testing.T, resource []byte, patch Object) (all []string) {
	t.Helper()
	path := text(patch.At("operation", "path"))
	expression, isExpression := patch.At("operation", "jsonPath").(string)
	if !isExpression {
		return []string{path}
	}
	parsed, err := jp.ParseString(expression)
	if err != nil {
		t.Fatalf("jsonPath %s: %v", expression, err)
	}
	tree, err := oj.Parse(resource)
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range parsed.Locate(tree, 0) { // $['filter_chains'][0]
		pointer := regexp.MustCompile(`\['?(.*?)'?\]`).ReplaceAllString(place.BracketString()[1:], "/$1")
		if path != "" {
			pointer += "/" + strings.TrimPrefix(path, "/")
		}
		all = append(all, pointer)
	}
	if len(all) == 0 {
		t.Fatalf("jsonPath %s finds nothing in %s", expression, resource)
	}
	return all
}

// What Envoy Gateway makes of listeners of one port: one listener with a filter chain for all that are plain HTTP, and
// one for each that has TLS.
func TestPatchPolicyReachesEveryFilterChain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		promise, file, listener string
		chains                  int
	}{
		{"plain HTTP", "httproute-with-tls-and-http.listeners.yaml", "envoy-gateway/gateway-1/http", 1},
		{"two of TLS on a port", "listener-overlapping-tls-config.listeners.yaml", "envoy-gateway/gateway-1/https-1", 2},
		{"HTTP filters of its own", "jwt-single-route-single-match.listeners.yaml", "first-listener", 1},
		{"a filter before the connection manager", "listener-connection-limit.listeners.yaml", "second-listener", 1},
	} {
		t.Run(tc.promise, func(t *testing.T) {
			before := translated(t, tc.file, tc.listener, &listener.Listener{})
			policy := patchPolicy(t, map[string]any{"listeners": []any{tc.listener}})
			after := patched(t, policy, tc.listener, before, &listener.Listener{})
			if got := managers(t, after); got != tc.chains {
				t.Errorf("%d connection managers ask weir, want %d", got, tc.chains)
			}
		})
	}
}

// managers counts the connection managers of a listener, of which each must ask weir.
func managers(t *testing.T, l *listener.Listener) (n int) {
	t.Helper()
	for _, chain := range append(slices.Clone(l.GetFilterChains()), l.GetDefaultFilterChain()) {
		for _, filter := range chain.GetFilters() {
			if filter.GetName() != "envoy.filters.network.http_connection_manager" {
				continue
			}
			manager := new(hcm.HttpConnectionManager)
			if err := filter.GetTypedConfig().UnmarshalTo(manager); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, f := range manager.HttpFilters {
				names = append(names, f.Name)
			}
			const limits, router = "envoy.filters.http.ratelimit", "envoy.filters.http.router"
			if n := len(names); n < 2 || !slices.Equal(names[n-2:], []string{limits, router}) || slices.Index(names, limits) != n-2 {
				t.Errorf("chain %s has the filters %v, want weir's once, before the router: what it counts by may come from the others",
					chain.GetName(), names)
			}
			n++
		}
	}
	return n
}

func TestPatchPolicyReachesEveryVirtualHost(t *testing.T) {
	t.Parallel()
	const name = "first-listener"
	before := translated(t, "jsonpatch.routes.yaml", name, &route.RouteConfiguration{})
	second := proto.Clone(before.VirtualHosts[0]).(*route.VirtualHost)
	second.Name, second.Domains = "second", []string{"second.example"}
	before.VirtualHosts = append(before.VirtualHosts, second)
	policy := patchPolicy(t, map[string]any{"listeners": []any{"default/eg/https"}, "routeConfigurations": []any{"default/eg/https", name}})
	for _, host := range patched(t, policy, name, before, &route.RouteConfiguration{}).VirtualHosts {
		if got := len(host.RateLimits); got != 2 {
			t.Errorf("virtual host %s has %d rate_limits, want the 2 of mesh.rateLimits", host.Name, got)
		}
		if first := host.Routes[0].GetDirectResponse().GetStatus(); first != 431 || len(host.Routes) < 2 {
			t.Errorf("virtual host %s has %d routes, of which the first answers %d; want that of mesh.bounds before the others",
				host.Name, len(host.Routes), first)
		}
	}
}

func TestHeaderPolicyReachesEveryConnectionManager(t *testing.T) {
	t.Parallel()
	policy := readFile(t, filepath.Join(k8sDir, "envoy-gateway", "headers.yaml"))[0]
	name := text(policy.At("spec", "jsonPatches", "0", "name"))
	before := translated(t, "listener-overlapping-tls-config.listeners.yaml", "envoy-gateway/gateway-1/https-1", &listener.Listener{})
	managers := 0
	for _, chain := range patched(t, policy, name, before, &listener.Listener{}).GetFilterChains() {
		manager := new(hcm.HttpConnectionManager)
		if err := chain.GetFilters()[0].GetTypedConfig().UnmarshalTo(manager); err != nil {
			t.Fatal(err)
		}
		if got := manager.GetMaxRequestHeadersKb().GetValue(); got != 16 {
			t.Errorf("chain %s takes %d KB of headers, want the 16 of headers.yaml", chain.GetName(), got)
		}
		managers++
	}
	if managers != 2 {
		t.Errorf("%d filter chains, want the 2 of the listener", managers)
	}
}

// patchPolicy renders the chart's EnvoyPatchPolicy.
func patchPolicy(t *testing.T, values map[string]any) Object {
	t.Helper()
	values["enabled"] = true
	r := render(t, "weir", map[string]any{"envoyGateway": map[string]any{"patchPolicy": values}})
	return ofKind(r.Objects, "EnvoyPatchPolicy")[0]
}
