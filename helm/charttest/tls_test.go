package charttest

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
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
