package redistest

import (
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
	"os"
	"path/filepath"
	"time"
)

// Certificates are PEM files of a CA made for one server or set, valid for a day.
type Certificates struct {
	CA        string // signed the servers' certificate, which is for 127.0.0.1 and localhost
	Cert, Key string // of a client

	serverCert, serverKey string
	client                *tls.Config
}

// Client returns a client's configuration: it trusts the CA and shows the client certificate. It is the caller's own.
func (c *Certificates) Client() *tls.Config { return c.client.Clone() }

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newCertificates(dir string) (*Certificates, error) {
	ca := authority{}
	c := &Certificates{
		CA:         filepath.Join(dir, "ca.pem"),
		Cert:       filepath.Join(dir, "client.pem"),
		Key:        filepath.Join(dir, "client.key"),
		serverCert: filepath.Join(dir, "server.pem"),
		serverKey:  filepath.Join(dir, "server.key"),
	}
	if err := ca.issue("redistest CA", c.CA, filepath.Join(dir, "ca.key")); err != nil {
		return nil, fmt.Errorf("making a CA: %w", err)
	}
	if err := ca.issue("redistest server", c.serverCert, c.serverKey); err != nil {
		return nil, fmt.Errorf("making a server certificate: %w", err)
	}
	if err := ca.issue("redistest client", c.Cert, c.Key); err != nil {
		return nil, fmt.Errorf("making a client certificate: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	c.client = &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return c, nil
}

// issue writes a certificate and its key. The first is the authority's own.
func (a *authority) issue(name, certFile, keyFile string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	cert := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		// Servers are each other's clients.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if a.cert == nil {
		cert.IsCA, cert.KeyUsage, cert.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
		a.cert, a.key = cert, key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return err
	}
	if cert.IsCA {
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			return err
		}
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(certFile, "CERTIFICATE", der); err != nil {
		return err
	}
	return writePEM(keyFile, "PRIVATE KEY", keyDER)
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
