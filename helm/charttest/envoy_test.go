package charttest

import (
	"bytes"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rate_limit_quota/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/rate_limit_descriptors/expr/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// read reads a part of Envoy's configuration into its type, which must know every field and find every value right.
func read[M proto.Message](t *testing.T, where string, tree any, into M) M {
	t.Helper()
	if err := protojson.Unmarshal(toJSON(t, tree), into); err != nil {
		t.Fatalf("%s is not what Envoy takes: %v", where, err)
	}
	validate(t, where, into)
	return into
}

// validate holds a message, and all that it carries, also as Any, to the rules of Envoy's own API.
func validate(t *testing.T, where string, m proto.Message) {
	t.Helper()
	err := protorange.Range(m.ProtoReflect(), func(at protopath.Values) error {
		part, isMessage := at.Index(-1).Value.Interface().(protoreflect.Message)
		if !isMessage {
			return nil
		}
		if v, ok := part.Interface().(interface{ ValidateAll() error }); ok {
			return v.ValidateAll()
		}
		return nil
	})
	if err != nil {
		t.Errorf("%s would be refused by Envoy: %v", where, err)
	}
}

// wantEnvoyTakes reads what an EnvoyFilter or an EnvoyPatchPolicy puts into Envoy's configuration.
func wantEnvoyTakes(t *testing.T, o Object) {
	t.Helper()
	if o.Kind() == "EnvoyFilter" {
		for _, patch := range o.At("spec", "configPatches").([]any) {
			wantPatch(t, o.String(), text(reach(patch, "applyTo")), reach(patch, "patch", "value"))
		}
	}
	if o.Kind() == "EnvoyPatchPolicy" {
		for _, patch := range o.At("spec", "jsonPatches").([]any) {
			kind := map[string]string{"Listener": "HTTP_FILTER", "RouteConfiguration /rate_limits": "RATE_LIMITS",
				"RouteConfiguration /routes/0": "HTTP_ROUTE", "Listener /max_request_headers_kb": "HEADERS_KB", "Cluster": "CLUSTER"}
			name, path := text(reach(patch, "type")), text(reach(patch, "operation", "path"))
			place := strings.TrimSpace(name[strings.LastIndex(name, ".")+1:] + " " + path)
			wantPatch(t, o.String(), kind[place], reach(patch, "operation", "value"))
		}
	}
}

func wantPatch(t *testing.T, where, kind string, value any) {
	t.Helper()
	switch kind {
	case "HTTP_FILTER":
		read(t, where, value, &hcm.HttpFilter{})
	case "CLUSTER":
		read(t, where, value, &cluster.Cluster{})
	case "VIRTUAL_HOST":
		wantRateLimits(t, where, reach(value, "rate_limits"))
	case "HTTP_ROUTE":
		if reach(value, "direct_response") != nil {
			read(t, where, value, &route.Route{})
			return
		}
		wantRateLimits(t, where, reach(value, "route", "rate_limits"))
	case "NETWORK_FILTER":
		wantManager(t, where, reach(value, "typed_config").(map[string]any))
	case "HEADERS_KB":
		wantManager(t, where, map[string]any{"max_request_headers_kb": value})
	case "RATE_LIMITS":
		wantRateLimits(t, where, value)
	default:
		t.Errorf("%s patches %q, which this test does not know", where, kind)
	}
}

// wantManager wants some fields of a connection manager to be right, beside those that it must have.
func wantManager(t *testing.T, where string, fields map[string]any) {
	t.Helper()
	whole := map[string]any{"stat_prefix": "any", "route_config": map[string]any{}}
	maps.Copy(whole, fields)
	delete(whole, "@type")
	read(t, where, whole, &hcm.HttpConnectionManager{})
}

func wantRateLimits(t *testing.T, where string, value any) {
	t.Helper()
	limits, isList := value.([]any)
	if !isList || len(limits) == 0 {
		t.Errorf("%s has no rate_limits, so Envoy would ask about nothing", where)
	}
	for _, limit := range limits {
		read(t, where, limit, &route.RateLimit{})
	}
}

// The same as the chart's templates, for who has no Helm; and who takes Envoy's bootstrap asks weir the same.
func TestMeshSamplesMatchTheChart(t *testing.T) {
	t.Parallel()
	made := render(t, inWeir, valuesOf(t, `
istio: {gateway: {enabled: true}, sidecar: {enabled: true, namespace: shop, selector: {app: cart}}}
envoyGateway: {patchPolicy: {enabled: true, namespace: default}}`)).Objects
	var samples []Object
	for _, file := range []string{"istio/gateway.yaml", "istio/sidecar.yaml", "envoy-gateway/patch-policy.yaml"} {
		samples = append(samples, readFile(t, filepath.Join(k8sDir, file))...)
	}
	wantSame(t, samples, ofKind(made, "EnvoyFilter", "EnvoyPatchPolicy"))

	const at = "static_resources listeners ingress filter_chains 0 filters 0 typed_config route_config virtual_hosts all"
	host := readFile(t, filepath.Join(k8sDir, "envoy", "envoy.yaml"))[0].At(strings.Fields(at)...)
	mesh := (Object{Tree: defaults(t)}).At("mesh")
	if asks, want := reach(host, "rate_limits"), reach(mesh, "rateLimits"); !cmp.Equal(asks, want) {
		t.Errorf("k8s/envoy/envoy.yaml asks weir for %v, and the chart makes Envoys ask for %v", asks, want)
	}
	if first, want := toJSON(t, reach(host, "routes", "0")), toJSON(t, reach(mesh, "bounds", "0")); !bytes.Equal(first, want) {
		t.Errorf("k8s/envoy/envoy.yaml begins with the route %s, and the chart bounds headers by %s", first, want)
	}
}

func TestEverySampleIsValid(t *testing.T) {
	t.Parallel()
	samples := 0
	for _, file := range inK8s(t, "*.yaml", 20) {
		folder := filepath.Base(filepath.Dir(file))
		if folder != "istio" && !strings.HasPrefix(folder, "envoy-") || filepath.Base(file) == "kustomization.yaml" {
			continue // whose objects kubectl puts together in another test
		}
		samples++
		for _, o := range readFile(t, file) {
			wantEnvoyTakes(t, o)
			pod := podOf(decode(t, o))
			if pod == nil {
				continue
			}
			variable := func(name string) string {
				return text(o.At("spec", "template", "spec", "containers", "0", "env", name, "value"))
			}
			for _, m := range pod.Spec.Containers[0].VolumeMounts {
				if want := filepath.Join(variable("RUNTIME_ROOT"), variable("RUNTIME_SUBDIRECTORY"), "config"); m.MountPath != want {
					t.Errorf("%s mounts its limits at %s, and weir reads %s", file, m.MountPath, want)
				}
			}
		}
	}
	if samples < 7 {
		t.Errorf("found %d samples: this test looks in the wrong place", samples)
	}
}
