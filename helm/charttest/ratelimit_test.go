package charttest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	ratelimitcommon "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	limits "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// As ratelimit weir counts in the keys of envoyproxy/ratelimit, in fixed windows, with the descriptor files of the chart.
func TestAsRatelimitItCountsInItsKeys(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	values := inRedis(redis.Addr)
	values["program"] = "ratelimit"
	values["descriptors"] = map[string]any{"a.yaml": "domain: shop\n" +
		"descriptors: [{key: user, rate_limit: {requests_per_unit: 10, unit: minute}}]\n"}
	w := startRendered(t, render(t, "weir", values))
	wantTenAMinute(t, startEnvoy(t, w.grpc))
	eventually(t, answers(w.http+"/healthcheck", 200))
	keys, err := redis.Client().Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(keys, regexp.MustCompile(`^shop_user_user0_[0-9]+0$`).MatchString) {
		t.Errorf("Redis holds %q, want the key shop_user_user0_ and the beginning of the minute, which envoyproxy/ratelimit has", keys)
	}
	if i := slices.IndexFunc(keys, func(key string) bool { return strings.HasPrefix(key, "weir:") }); i >= 0 {
		t.Errorf("Redis holds %s, which nobody who replaces envoyproxy/ratelimit has asked for", keys[i])
	}
}

// authority signs the certificates of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	a.cert, a.key = certificate(t, nil, "authority")
	return a
}

// certificate makes a certificate for a name, and for 127.0.0.1, signed by an authority or by itself.
func certificate(t *testing.T, by *authority, name string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	if by == nil {
		c.IsCA, c.BasicConstraintsValid = true, true
		by = &authority{cert: c, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by.cert, &key.PublicKey, by.key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return c, key
}

// secret is a Secret as cert-manager makes it: a certificate for a name, its key, and the authority.
func (a *authority) secret(t *testing.T, secret, name string) map[string]any {
	t.Helper()
	c, key := certificate(t, a, name)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": secret, "namespace": "limits"},
		"stringData": map[string]any{"tls.crt": block("CERTIFICATE", c.Raw), "tls.key": block("EC PRIVATE KEY", der),
			"ca.crt": block("CERTIFICATE", a.cert.Raw)}}
}

// config is what one who has a certificate for a name talks TLS with, or without a certificate if the name is empty.
func (a *authority) config(t *testing.T, name string) *tls.Config {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	c := &tls.Config{RootCAs: pool, ClientCAs: pool}
	if name != "" {
		cert, key := certificate(t, a, name)
		c.Certificates = []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}
	}
	return c
}

func TestTheGRPCPortIsServedByTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	w := startRendered(t, render(t, "weir", map[string]any{
		"grpc":         map[string]any{"tls": map[string]any{"enabled": true, "existingSecret": "grpc-tls", "clientCAKey": "ca.crt", "clientName": "envoy"}},
		"extraObjects": []any{a.secret(t, "grpc-tls", "weir")},
	}))
	for name, want := range map[string]codes.Code{"envoy": codes.OK, "another": codes.Unavailable, "": codes.Unavailable} {
		conn, err := grpc.NewClient(w.grpc, grpc.WithTransportCredentials(credentials.NewTLS(a.config(t, name))))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), process.Hang)
		answer, err := ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &ratelimit.RateLimitRequest{Domain: "shop",
			Descriptors: []*ratelimitcommon.RateLimitDescriptor{{Entries: []*ratelimitcommon.RateLimitDescriptor_Entry{{Key: "user", Value: "ann"}}}}})
		cancel()
		conn.Close()
		if status.Code(err) != want {
			t.Errorf("a client with a certificate for %q gets %v, %v; want %v, as only envoy may ask", name, answer, err, want)
		}
	}
}

// ads is an xDS server that knows one configuration.
type ads struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	domain *limits.RateLimitConfig
	asked  chan string // by whom, once a stream begins
	acked  chan string // the version that was taken, or why not
}

func (s *ads) StreamAggregatedResources(stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	const kind = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"
	first, err := stream.Recv()
	if err != nil || first.TypeUrl != kind {
		return fmt.Errorf("asked for %q: %w", first.GetTypeUrl(), err)
	}
	header, _ := metadata.FromIncomingContext(stream.Context())
	s.asked <- fmt.Sprint(first.Node.Id, " ", first.Node.Metadata.AsMap(), " ", header.Get("x-tenant"))
	resource, err := anypb.New(s.domain)
	if err != nil {
		return err
	}
	if err := stream.Send(&discovery.DiscoveryResponse{VersionInfo: "7", Nonce: "1", TypeUrl: kind, Resources: []*anypb.Any{resource}}); err != nil {
		return err
	}
	answer, err := stream.Recv()
	if err != nil {
		return err
	}
	s.acked <- answer.VersionInfo + answer.ErrorDetail.GetMessage()
	<-stream.Context().Done()
	return nil
}

// serve answers on a listener until the test ends.
func (s *ads) serve(t *testing.T, server *grpc.Server, listener net.Listener) {
	discovery.RegisterAggregatedDiscoveryServiceServer(server, s)
	go func() { _ = server.Serve(listener) }() // Stop ends it
	t.Cleanup(server.Stop)
}

func TestLimitsComeByXDS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	s := &ads{asked: make(chan string, 9), acked: make(chan string, 9), domain: &limits.RateLimitConfig{Name: "shop", Domain: "shop",
		Descriptors: []*limits.RateLimitDescriptor{{Key: "user", RateLimit: &limits.RateLimitPolicy{Unit: limits.RateLimitUnit_MINUTE, RequestsPerUnit: 10}}}}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := a.config(t, "control")
	config.ClientAuth, config.MinVersion = tls.RequireAndVerifyClientCert, tls.VersionTLS13
	s.serve(t, grpc.NewServer(grpc.Creds(credentials.NewTLS(config))), listener)

	w := startRendered(t, render(t, "weir", map[string]any{
		"xds": map[string]any{"server": listener.Addr().String(), "node": "edge", "metadata": map[string]any{"zone": "a"},
			"headers": map[string]any{"x-tenant": "shop"},
			"tls":     map[string]any{"enabled": true, "existingSecret": "xds-tls", "serverName": "control"}},
		"extraObjects": []any{a.secret(t, "xds-tls", "weir")},
	}))
	if got, want := <-s.asked, "edge map[zone:a] [shop]"; got != want {
		t.Errorf("weir says that it is %q, want %q", got, want)
	}
	if got := <-s.acked; got != "7" {
		t.Errorf("weir answers %q, want that it takes version 7", got)
	}
	wantTenAMinute(t, startEnvoy(t, w.grpc))
}

func TestStatisticsGoWhereTheValuesSay(t *testing.T) {
	t.Parallel()
	statsd, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer statsd.Close()
	w := startRendered(t, render(t, "weir", map[string]any{
		"statistics": map[string]any{
			"prometheus": map[string]any{"enabled": true, "path": "/numbers",
				"mapper": map[string]any{"existingConfigMap": "names", "key": "names.yaml"}},
			"statsd": map[string]any{"enabled": true, "host": "127.0.0.1", "protocol": "udp",
				"port": statsd.LocalAddr().(*net.UDPAddr).Port},
			"extraTags": map[string]any{"cluster": "edge"}, "flushInterval": "1s",
		},
		"extraObjects": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "names", "namespace": "limits"}, "data": map[string]any{"names.yaml": "mappings:\n" +
				"  - match: ratelimit.service.rate_limit.*.*.total_hits\n    name: hits\n    labels: {of: \"$1\", by: \"$2\"}\n"}}},
	}))
	const sent = "ratelimit.service.rate_limit.shop.user.total_hits"
	line := regexp.MustCompile(`(?m)^hits\{(.*)\} 1$`)
	if out, code := call(t, "call", "--addr", w.grpc, "--domain", "shop", "--descriptor", "user=ann"); code != 0 {
		t.Fatalf("weir call ends with %d: %s", code, out)
	}
	eventually(t, func() error { // the statistics may be a flush behind
		_, text, _ := body(t, w.statistics+"/numbers", nil)
		labels := strings.Join(line.FindStringSubmatch(text), "")
		for _, label := range []string{`of="shop"`, `by="user"`, `cluster="edge"`} {
			if !strings.Contains(labels, label) {
				return fmt.Errorf("Prometheus is not told of the hit by the names of the mapping, with %s:\n%s", label, text)
			}
		}
		return nil
	})
	packet := make([]byte, 65536)
	if err := statsd.SetReadDeadline(time.Now().Add(process.Hang)); err != nil {
		t.Fatal(err)
	}
	for {
		n, _, err := statsd.ReadFrom(packet)
		if err != nil {
			t.Fatalf("statsd is not told of the hit: %v", err)
		}
		if strings.Contains(string(packet[:n]), sent) {
			return
		}
	}
}

// What a value leaves open is as the program that weir is started as has it.
func TestTheProgramDecidesWhatTheValuesLeaveOpen(t *testing.T) {
	t.Parallel()
	redis := map[string]any{"addresses": []any{"redis:6379"}}
	for _, tc := range []struct {
		promise string
		values  map[string]any
		want    map[string]string
	}{
		{"weir", map[string]any{"redis": redis}, map[string]string{"ALGORITHM": "sliding_window", "ON_BACKEND_FAILURE": "allow", "HISTORY": "true"}},
		{"ratelimit", map[string]any{"program": "ratelimit", "redis": redis},
			map[string]string{"ALGORITHM": "fixed_window", "ON_BACKEND_FAILURE": "error", "HISTORY": "false", "USE_STATSD": "false", "DEBUG_PPROF": "false"}},
		{"ratelimit with what is better", map[string]any{"program": "ratelimit", "redis": map[string]any{"addresses": []any{"redis:6379"}, "onFailure": "local"},
			"algorithm": "sliding_window", "keyFormat": "weir", "history": map[string]any{"enabled": true}},
			map[string]string{"ALGORITHM": "sliding_window", "ON_BACKEND_FAILURE": "local", "HISTORY": "true", "KEY_FORMAT": "weir"}},
		{"ratelimit with a history of its own", map[string]any{"program": "ratelimit", "redis": redis,
			"history": map[string]any{"redis": map[string]any{"urlSecret": "history-redis"}}}, map[string]string{"HISTORY": "true"}},
	} {
		r := render(t, "weir", tc.values)
		env := make(map[string]string)
		for _, e := range r.deployment(t).Spec.Template.Spec.Containers[0].Env {
			env[e.Name] = e.Value
		}
		for name, want := range tc.want {
			if env[name] != want {
				t.Errorf("%s: %s is %q, want %q", tc.promise, name, env[name], want)
			}
		}
	}
}
