package charttest

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	limits "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weirproxy/weir/cmd/weir/certs/certstest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
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
	weirtest.Eventually(t, "weir is healthy", answers(w.http+"/healthcheck", 200))
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

// secretOf is a Secret as cert-manager makes it: a certificate for a name and 127.0.0.1, its key, and the authority.
func secretOf(t *testing.T, a *certstest.Authority, secret, name string) map[string]any {
	t.Helper()
	cert, key := a.Issue(t, name, "127.0.0.1")
	return map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": secret, "namespace": "limits"},
		"stringData": map[string]any{"tls.crt": string(cert), "tls.key": string(key), "ca.crt": string(a.PEM)}}
}

// certified is what one who has a certificate for a name talks TLS with, or without a certificate if the name is empty.
func certified(t *testing.T, a *certstest.Authority, name string) *tls.Config {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.PEM)
	c := &tls.Config{RootCAs: pool, ClientCAs: pool}
	if name != "" {
		pair, err := tls.X509KeyPair(a.Issue(t, name, "127.0.0.1"))
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

func TestTheGRPCPortIsServedByTLS(t *testing.T) {
	t.Parallel()
	a := certstest.New(t, "authority")
	values := valuesOf(t, "grpc: {tls: {enabled: true, existingSecret: grpc-tls, clientCAKey: ca.crt, clientName: envoy}}")
	values["extraObjects"] = []any{secretOf(t, a, "grpc-tls", "weir")}
	w := startRendered(t, render(t, "weir", values))
	for name, want := range map[string]codes.Code{"envoy": codes.OK, "another": codes.Unavailable, "": codes.Unavailable} {
		client := weirtest.Dial(t, w.grpc, grpc.WithTransportCredentials(credentials.NewTLS(certified(t, a, name))))
		if answer, err := client.Ask("shop", weirtest.Describe("user", "ann")); status.Code(err) != want {
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
	a := certstest.New(t, "authority")
	s := &ads{asked: make(chan string, 9), acked: make(chan string, 9), domain: &limits.RateLimitConfig{Name: "shop", Domain: "shop",
		Descriptors: []*limits.RateLimitDescriptor{{Key: "user", RateLimit: &limits.RateLimitPolicy{Unit: limits.RateLimitUnit_MINUTE, RequestsPerUnit: 10}}}}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := certified(t, a, "control")
	config.ClientAuth, config.MinVersion = tls.RequireAndVerifyClientCert, tls.VersionTLS13
	s.serve(t, grpc.NewServer(grpc.Creds(credentials.NewTLS(config))), listener)

	values := valuesOf(t, "xds: {server: '"+listener.Addr().String()+"', node: edge, metadata: {zone: a}, headers: {x-tenant: shop}, "+
		"tls: {enabled: true, existingSecret: xds-tls, serverName: control}}")
	values["extraObjects"] = []any{secretOf(t, a, "xds-tls", "weir")}
	w := startRendered(t, render(t, "weir", values))
	if got, want := <-s.asked, "edge map[zone:a] [shop]"; got != want {
		t.Errorf("weir says that it is %q, want %q", got, want)
	}
	if got := <-s.acked; got != "7" {
		t.Errorf("weir answers %q, want that it takes version 7", got)
	}
	wantTenAMinute(t, startEnvoy(t, w.grpc))
}
