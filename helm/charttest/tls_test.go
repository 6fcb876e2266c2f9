package charttest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cache "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	ads "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	limitspb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weirproxy/weir/cmd/weir/certs/certstest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

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

func TestLimitsComeByXDS(t *testing.T) {
	t.Parallel()
	a := certstest.New(t, "authority")
	asked, took := make(chan string, 9), make(chan string, 9)
	shop := &limitspb.RateLimitConfig{Name: "shop", Domain: "shop", Descriptors: []*limitspb.RateLimitDescriptor{
		{Key: "user", RateLimit: &limitspb.RateLimitPolicy{Unit: limitspb.RateLimitUnit_MINUTE, RequestsPerUnit: 10}}}}
	limits := cache.NewLinearCache(resource.RateLimitConfigType, cache.WithVersionPrefix("v"),
		cache.WithInitialResources(map[string]types.Resource{"shop": shop}))
	callbacks := ads.CallbackFuncs{
		StreamOpenFunc: func(ctx context.Context, _ int64, _ string) error {
			header, _ := metadata.FromIncomingContext(ctx)
			asked <- fmt.Sprint(header.Get("x-tenant"))
			return nil
		},
		StreamRequestFunc: func(_ int64, r *discovery.DiscoveryRequest) error {
			if r.Node != nil {
				asked <- fmt.Sprint(r.Node.Id, " ", r.Node.Metadata.AsMap())
			}
			if r.ResponseNonce != "" {
				took <- r.VersionInfo + r.GetErrorDetail().GetMessage()
			}
			return nil
		},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := certified(t, a, "control")
	config.ClientAuth, config.MinVersion = tls.RequireAndVerifyClientCert, tls.VersionTLS13
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	discovery.RegisterAggregatedDiscoveryServiceServer(server, ads.NewServer(t.Context(), limits, callbacks))
	go func() { _ = server.Serve(listener) }() // Stop ends it
	t.Cleanup(server.Stop)

	values := valuesOf(t, "xds: {server: '"+listener.Addr().String()+"', node: edge, metadata: {zone: a}, headers: {x-tenant: shop}, "+
		"tls: {enabled: true, existingSecret: xds-tls, serverName: control}}")
	values["extraObjects"] = []any{secretOf(t, a, "xds-tls", "weir")}
	w := startRendered(t, render(t, "weir", values))
	if header, node := <-asked, <-asked; header != "[shop]" || node != "edge map[zone:a]" {
		t.Errorf("weir asks with the header %q as %q, want [shop] and edge map[zone:a]", header, node)
	}
	if got := <-took; !strings.HasPrefix(got, "v") {
		t.Errorf("weir answers %q, want that it takes what was sent", got)
	}
	w.wantTenFor(t, "ann", insecure.NewCredentials())
}
