package dropin_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// authority signs certificates, as Envoy Gateway's own does.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

// pair is a certificate with its key, for servers and clients.
type pair struct{ cert, key string }

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{}
	template := certificate(t, name)
	template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign
	a.cert, a.key = template, newKey(t)
	der := a.sign(t, template, a.key)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = encode("CERTIFICATE", der)
	return a
}

// issue returns a pair for these names.
func (a *authority) issue(t *testing.T, names ...string) pair {
	t.Helper()
	template := certificate(t, names[0])
	template.DNSNames, template.KeyUsage = names, x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	key := newKey(t)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{cert: encode("CERTIFICATE", a.sign(t, template, key)), key: encode("PRIVATE KEY", der)}
}

func (a *authority) sign(t *testing.T, template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func certificate(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		t.Fatal(err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// secret returns the files of a Secret with a pair and the authorities that its owner trusts.
func (p pair) secret(trusted ...*authority) map[string]string {
	files := map[string]string{"tls.crt": p.cert, "tls.key": p.key}
	for _, a := range trusted {
		files["ca.crt"] += a.pem
	}
	return files
}

// config returns what a server with this pair wants of its clients, or a client of its servers: TLS 1.3, and a
// certificate that one of these authorities has signed.
func (p pair) config(t *testing.T, trusted ...*authority) *tls.Config {
	t.Helper()
	own, err := tls.X509KeyPair([]byte(p.cert), []byte(p.key))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	for _, a := range trusted {
		pool.AddCert(a.cert)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{own}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
	}
}

// serial returns the number of the pair's certificate, as tools write it.
func (p pair) serial(t *testing.T) string {
	t.Helper()
	block, _ := pem.Decode([]byte(p.cert))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert.SerialNumber.Text(16)
}
