package xds

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/certstest"
	"github.com/weirproxy/weir/cmd/weir/certs"
)

// gateway returns the TLS of a server as Envoy Gateway has it: version 1.3, and a certificate of the client's.
func gateway(t *testing.T, own, clients *certstest.Authority, name string) *tls.Config {
	t.Helper()
	pair, err := tls.X509KeyPair(own.Issue(t, name))
	must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(clients.PEM)
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
}

func TestConnectionUsesTheCurrentCertificates(t *testing.T) {
	t.Parallel()
	old, next := certstest.New(t, "old"), certstest.New(t, "next")
	dir := t.TempDir()
	mount := func(own, servers *certstest.Authority) {
		cert, key := own.Issue(t, "weir")
		certstest.Mount(t, dir, map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": servers.PEM})
	}
	mount(old, old)
	secure, err := certs.Client(certs.Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"),
		CA: filepath.Join(dir, "ca.crt"), SAN: "envoy-gateway"}, slog.New(slog.DiscardHandler))
	must(t, err)

	server := listen(t, socket(t), gateway(t, old, old, "envoy-gateway"))
	server.set("1", limited("a", 1))
	c := follow(t, server.address, func(c *Config) { c.TLS = secure })
	c.expect("a=1", "over TLS 1.3 and with a client certificate")
	server.stop()

	var attempts atomic.Int32
	secured := gateway(t, next, next, "envoy-gateway") // which trusts nobody by the old authority
	secured.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { attempts.Add(1); return nil, nil }
	server = listen(t, server.address, secured)
	server.set("2", limited("a", 2))
	c.await("a second attempt", func() bool { return attempts.Load() > 1 })
	if got := c.limits(); got != "a=1" {
		t.Errorf("in force is %s, want what the server sent that is trusted", got)
	}
	mount(next, next)
	c.expect("a=2", "a new connection is made with the certificates that are there now")
}
