package cookbook_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

type tree = map[string]any

// startEnvoy runs one Envoy with a listener for each recipe, and returns where they are.
func startEnvoy(t *testing.T, recipes []*recipe, recorderPort, upstreamPort int) map[string]string {
	t.Helper()
	var listeners []any
	for _, r := range recipes {
		listeners = append(listeners, r.listener())
	}
	whole := tree{
		"admin": tree{"address": address(0)},
		"static_resources": tree{
			"listeners": listeners,
			"clusters":  []any{cluster("weir", recorderPort, true), cluster("upstream", upstreamPort, false)},
		},
	}
	for _, r := range recipes {
		maps.Copy(whole, r.envoy["bootstrap"])
	}
	bootstrap, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	bootstrap = bytes.ReplaceAll(bootstrap, []byte("/etc/envoy/jwks.json"), []byte(issuerKeys(t)))
	return weirtest.StartEnvoy(t, bootstrap, len(recipes)).Addrs
}

// listener is the listener of a recipe: what every Envoy that asks weir has, with the recipe's blocks in their places.
// What the recipe gives as http_filters stands before the rate limit filter, and its routes before the one to the upstream.
func (r *recipe) listener() any {
	limits := tree{
		"@type":  "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit",
		"domain": r.name,
		// Far above what an answer takes; and a question that fails must not look like one that was allowed.
		"timeout": "60s", "failure_mode_deny": true,
		"enable_x_ratelimit_headers": "DRAFT_VERSION_03",
		"rate_limit_service": tree{"transport_api_version": "V3",
			"grpc_service": tree{"envoy_grpc": tree{"cluster_name": "weir"}}},
	}
	maps.Copy(limits, r.envoy["rate limit filter"])
	route := tree{"match": tree{"prefix": "/"}, "route": tree{"cluster": "upstream"}}
	maps.Copy(route, r.envoy["route"])
	host := tree{"name": "all", "domains": []any{"*"}}
	maps.Copy(host, r.envoy["virtual host"])
	first, _ := host["routes"].([]any)
	host["routes"] = slices.Concat(first, []any{route})
	manager := tree{
		"@type":        "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
		"stat_prefix":  r.name,
		"route_config": tree{"virtual_hosts": []any{host}},
	}
	own := maps.Clone(r.envoy["connection manager"])
	before, _ := own["http_filters"].([]any)
	delete(own, "http_filters")
	maps.Copy(manager, own)
	manager["http_filters"] = slices.Concat(before, []any{
		tree{"name": "envoy.filters.http.ratelimit", "typed_config": limits},
		tree{"name": "envoy.filters.http.router", "typed_config": tree{"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}},
	})
	return tree{"name": r.name, "address": address(0), "filter_chains": []any{tree{"filters": []any{
		tree{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager},
	}}}}
}

func address(port int) tree {
	return tree{"socket_address": tree{"address": "127.0.0.1", "port_value": port}}
}

func cluster(name string, port int, http2 bool) tree {
	c := tree{"name": name, "connect_timeout": "60s", "load_assignment": tree{"cluster_name": name, "endpoints": []any{
		tree{"lb_endpoints": []any{tree{"endpoint": tree{"address": address(port)}}}}}}}
	if http2 {
		c["typed_extension_protocol_options"] = tree{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": tree{
			"@type":                "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
			"explicit_http_config": tree{"http2_protocol_options": tree{}},
		}}
	}
	return c
}

// issuerKey is what the issuer of the recipes' tokens signs with.
const issuerKey = "the cookbook's issuer signs its tokens with this"

// issuerKeys writes the file in which Envoy finds the issuer's keys.
func issuerKeys(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "jwks.json")
	keys := fmt.Sprintf(`{"keys": [{"kty": "oct", "alg": "HS256", "k": %q}]}`, encode(issuerKey))
	if err := os.WriteFile(file, []byte(keys), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// token is a signed JWT with claims.
func token(claims string) string {
	text := encode(`{"alg":"HS256","typ":"JWT"}`) + "." + encode(claims)
	sum := hmac.New(sha256.New, []byte(issuerKey))
	sum.Write([]byte(text))
	return text + "." + encode(string(sum.Sum(nil)))
}

func encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
