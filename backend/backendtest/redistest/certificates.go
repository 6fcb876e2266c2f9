package redistest

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/certstest"
)

// Certificates are PEM files made for the servers of a test, valid for a day.
type Certificates struct {
	CA        string // is to be trusted; the same file as Cert, which ends with its authority
	Cert, Key string // of servers and clients, for 127.0.0.1 and localhost

	client *tls.Config
}

// Client returns a client's configuration: it trusts the CA and shows the certificate. It is the caller's own.
func (c *Certificates) Client() *tls.Config { return c.client.Clone() }

// MakeCertificates makes them for a test's own servers.
func MakeCertificates(t testing.TB) *Certificates {
	t.Helper()
	authority, dir, roots := certstest.New(t, "redistest"), t.TempDir(), x509.NewCertPool()
	cert, key := authority.Issue(t, "127.0.0.1", "localhost")
	chain := append(cert, authority.PEM...)
	certstest.Mount(t, dir, map[string][]byte{"cert.pem": chain, "key.pem": key})
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	roots.AppendCertsFromPEM(authority.PEM)
	file := filepath.Join(dir, "cert.pem")
	return &Certificates{CA: file, Cert: file, Key: filepath.Join(dir, "key.pem"),
		client: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}}
}
