package charttest

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/weirproxy/weir/cmd/weir/certs/certstest"
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
