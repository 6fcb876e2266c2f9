package charttest

import (
	"path/filepath"
	"strings"
	"testing"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/rate_limit_descriptors/expr/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
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

// validate holds a message, and all that it carries as Any, to the rules of Envoy's own API.
func validate(t *testing.T, where string, m proto.Message) {
	t.Helper()
	if v, ok := m.(interface{ ValidateAll() error }); ok {
		if err := v.ValidateAll(); err != nil {
			t.Errorf("%s would be refused by Envoy: %v", where, err)
		}
	}
	m.ProtoReflect().Range(func(_ protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		eachMessage(value, func(inner proto.Message) {
			if packed, isAny := inner.(*anypb.Any); isAny {
				unpacked, err := packed.UnmarshalNew()
				if err != nil {
					t.Errorf("%s: %v", where, err)
					return
				}
				inner = unpacked
			}
			validate(t, where, inner)
		})
		return true
	})
}

func eachMessage(value protoreflect.Value, visit func(proto.Message)) {
	switch value := value.Interface().(type) {
	case protoreflect.Message:
		visit(value.Interface())
	case protoreflect.List:
		for i := range value.Len() {
			eachMessage(value.Get(i), visit)
		}
	case protoreflect.Map:
		value.Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
			eachMessage(v, visit)
			return true
		})
	}
}

// wantEnvoyTakes reads what an EnvoyFilter or an EnvoyPatchPolicy puts into Envoy's configuration. It says how many
// rate-limit filters there were.
func wantEnvoyTakes(t *testing.T, o Object) (filters int) {
	t.Helper()
	if o.Kind() == "EnvoyFilter" {
		for _, patch := range o.At("spec", "configPatches").([]any) {
			p := Object{Tree: patch.(map[string]any)}
			filters += wantPatch(t, o.String(), text(p.At("applyTo")), p.At("patch", "value"))
		}
	}
	if o.Kind() == "EnvoyPatchPolicy" {
		for _, patch := range o.At("spec", "jsonPatches").([]any) {
			p := Object{Tree: patch.(map[string]any)}
			kind := map[string]string{"Listener": "HTTP_FILTER", "RouteConfiguration": "RATE_LIMITS", "Cluster": "CLUSTER"}
			name := text(p.At("type"))
			filters += wantPatch(t, o.String(), kind[name[strings.LastIndex(name, ".")+1:]], p.At("operation", "value"))
		}
	}
	return filters
}

func wantPatch(t *testing.T, where, kind string, value any) (filters int) {
	t.Helper()
	part := Object{}
	part.Tree, _ = value.(map[string]any) // a list has no keys
	switch kind {
	case "HTTP_FILTER":
		read(t, where, value, &hcm.HttpFilter{})
		return 1
	case "CLUSTER":
		read(t, where, value, &cluster.Cluster{})
	case "VIRTUAL_HOST":
		wantRateLimits(t, where, part.At("rate_limits"))
	case "HTTP_ROUTE":
		wantRateLimits(t, where, part.At("route", "rate_limits"))
	case "RATE_LIMITS":
		wantRateLimits(t, where, value)
	default:
		t.Errorf("%s patches %q, which this test does not know", where, kind)
	}
	return 0
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

func TestEnvoyTakesWhatTheMeshTemplatesGiveIt(t *testing.T) {
	t.Parallel()
	want := map[string]int{"istio": 2, "envoy-gateway": 2, "sidecar": 1, "everything": 3}
	for _, name := range caseNames(t) {
		filters := 0
		for _, o := range render(t, "weir", caseValues(t, name)).Objects {
			filters += wantEnvoyTakes(t, o)
		}
		if filters != want[name] {
			t.Errorf("ci/%s-values.yaml gives %d rate-limit filters, want %d", name, filters, want[name])
		}
	}
}

// The same as the chart's templates, for who has no Helm.
func TestTheMeshSamplesAreWhatTheChartGives(t *testing.T) {
	t.Parallel()
	charted := make(map[string]any)
	enabled := map[string]any{"enabled": true}
	r, err := renderIn(t, "weir", "weir", map[string]any{
		"istio": map[string]any{"gateway": enabled,
			"sidecar": map[string]any{"enabled": true, "namespace": "shop", "selector": map[string]any{"app": "cart"}}},
		"envoyGateway": map[string]any{"patchPolicy": map[string]any{"enabled": true, "namespace": "default"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, tree := range withoutLabels(r.Objects) {
		if strings.HasPrefix(name, "Envoy") {
			charted[name] = tree
		}
	}
	var samples []Object
	for _, file := range []string{"istio/gateway.yaml", "istio/sidecar.yaml", "envoy-gateway/patch-policy.yaml"} {
		objects, err := readFile(filepath.Join(k8sDir, file))
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, objects...)
	}
	wantSame(t, withoutLabels(samples), charted)
}

func TestEverySampleIsWhatItsAPITakes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(k8sDir, "[ei]*-*", "*.yaml"))
	istio, _ := filepath.Glob(filepath.Join(k8sDir, "istio", "*.yaml")) // the pattern is right
	if files = append(files, istio...); err != nil || len(files) < 9 {
		t.Fatalf("found %d samples, %v: this test looks in the wrong place", len(files), err)
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue // whose objects kubectl puts together in another test
		}
		objects, err := readFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			wantEnvoyTakes(t, o)
			pod := podOf(decode(t, o))
			if pod == nil {
				continue
			}
			c, env := pod.Spec.Containers[0], make(map[string]string)
			for _, e := range c.Env {
				env[e.Name] = e.Value
			}
			for _, m := range c.VolumeMounts {
				if want := filepath.Join(env["RUNTIME_ROOT"], env["RUNTIME_SUBDIRECTORY"], "config"); m.MountPath != want {
					t.Errorf("%s mounts its limits at %s, and weir reads %s", file, m.MountPath, want)
				}
			}
		}
	}
}
