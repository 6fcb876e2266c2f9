// Package certstest makes certificates for tests.
package certstest

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Authority signs certificates that are valid for a day.
type Authority struct {
	PEM []byte // its own certificate

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes an authority.
func New(t testing.TB, name string) *Authority {
	t.Helper()
	template := newCertificate(t, name)
	template.IsCA, template.KeyUsage, template.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
	key := newKey(t)
	a := &Authority{key: key}
	a.cert = sign(t, template, template, key, key)
	a.PEM = encode("CERTIFICATE", a.cert.Raw)
	return a
}

var (
	publicOnce sync.Once
	public     *Authority
)

// Public returns the one authority that the system trusts, as this process sees the system from now on. Package main,
// which has others for systems without any, cannot use it.
func Public(t testing.TB) *Authority {
	t.Helper()
	publicOnce.Do(func() {
		public = New(t, "public")
		if err := os.Setenv("GODEBUG", "x509usefallbackroots=1"); err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AddCert(public.cert)
		x509.SetFallbackRoots(pool)
	})
	return public
}

// Issue returns a certificate and its key, in PEM, for servers and clients of these names: DNS names, IP addresses, and
// URIs, which have "://" in them.
func (a *Authority) Issue(t testing.TB, names ...string) (cert, key []byte) {
	t.Helper()
	template := newCertificate(t, strings.Join(names, " "))
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if strings.Contains(name, "://") {
			uri, err := url.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			template.URIs = append(template.URIs, uri)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	private := newKey(t)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return encode("CERTIFICATE", sign(t, template, a.cert, private, a.key).Raw), encode("PRIVATE KEY", der)
}

// KeyPair is Issue for a side of TLS that reads no files.
func (a *Authority) KeyPair(t testing.TB, names ...string) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(a.Issue(t, names...))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// Mount puts files, by name, where a Kubernetes Secret's or ConfigMap's would be: links to a directory behind one link,
// which is what a change replaces. It is called again for each change, with all the files.
func Mount[T []byte | string](t testing.TB, dir string, files map[string]T) {
	t.Helper()
	data, err := os.MkdirTemp(dir, "..")
	if err == nil { // a container's user may be another one
		err = cmp.Or(os.Chmod(dir, 0o755), os.Chmod(data, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(data, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		_ = os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)) // it is there already when they change
	}
	link := data + "_link"
	if err := os.Symlink(filepath.Base(data), link); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newCertificate(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		t.Fatal(err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

func sign(t testing.TB, template, by *x509.Certificate, key, with *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, by, &key.PublicKey, with)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
