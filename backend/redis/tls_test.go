package redis

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	file string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := new(authority)
	a.file, _ = a.issue(t, t.TempDir(), "authority")
	return a
}

// issue writes the certificate of a name, and its key. The first is the authority's own.
func (a *authority) issue(t *testing.T, dir, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: a.cert == nil,
	}
	if ip := net.ParseIP(name); ip != nil {
		cert.DNSNames, cert.IPAddresses = nil, []net.IP{ip}
	}
	if a.cert == nil {
		a.cert, a.key = cert, key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	rewrite(t, certFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	rewrite(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})))
	return certFile, keyFile
}

// greeter is a TLS server that is certified as name and greets each client with the client's name.
func (a *authority) greeter(t *testing.T, name string) (addr string) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(a.issue(t, t.TempDir(), name))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			greeted := conn.(*tls.Conn)
			client := "nobody"
			if greeted.Handshake() == nil && len(greeted.ConnectionState().PeerCertificates) > 0 {
				client = greeted.ConnectionState().PeerCertificates[0].Subject.CommonName
			}
			_, _ = conn.Write([]byte(client + "\n")) // the client looks at what came
			conn.Close()
		}
	}()
	return listener.Addr().String()
}

// greeting is what a server says to the dialer.
func greeting(d *dialer, addr string) (string, error) {
	conn, err := d.secure(context.Background(), "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}

func tlsDialer(t *testing.T, c TLSConfig) *dialer {
	t.Helper()
	d, err := newDialer(c, DefaultTimeout*10)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestOnlyServersOfATrustedAuthorityAndNameAreTalkedTo(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	right, other, stranger := ours.greeter(t, "127.0.0.1"), ours.greeter(t, "redis"), theirs.greeter(t, "127.0.0.1")
	strict := tlsDialer(t, TLSConfig{CAFile: ours.file})
	lenient := tlsDialer(t, TLSConfig{CAFile: ours.file, SkipHostnameVerification: true})
	tests := []struct {
		what   string
		dialer *dialer
		addr   string
		fine   bool
	}{
		{"a server that is who it says", strict, right, true},
		{"a server with another's name", strict, other, false},
		{"a server with another's name, which is allowed", lenient, other, true},
		{"a server of a stranger", strict, stranger, false},
		{"a server of a stranger, where any name is allowed", lenient, stranger, false},
		{"a server of an authority that the system does not know", tlsDialer(t, TLSConfig{}), right, false},
	}
	for _, test := range tests {
		if _, err := greeting(test.dialer, test.addr); (err == nil) != test.fine {
			t.Errorf("%s: %v; accepted should be %t", test.what, err, test.fine)
		}
	}
}

func TestClientCertificatesAreRenewedWithoutARestart(t *testing.T) {
	a := newAuthority(t)
	addr := a.greeter(t, "127.0.0.1")
	dir := t.TempDir()
	certFile, keyFile := a.issue(t, dir, "ann")
	d := tlsDialer(t, TLSConfig{CAFile: a.file, CertFile: certFile, KeyFile: keyFile})
	wantGreeting := func(when, want string) {
		t.Helper()
		if got, err := greeting(d, addr); err != nil || got != want {
			t.Errorf("%s the server sees %q, %v; want %s", when, got, err, want)
		}
	}
	wantGreeting("at first", "ann")
	a.issue(t, dir, "bob")
	wantGreeting("after a renewal", "bob")

	otherCert, _ := a.issue(t, t.TempDir(), "eve")
	cert, err := os.ReadFile(otherCert)
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, certFile, string(cert)) // the key is still bob's
	wantGreeting("in the midst of a renewal", "bob")
}

func TestAnAuthorityIsReplacedWithoutARestart(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	d := tlsDialer(t, TLSConfig{CAFile: before.file})
	addr := after.greeter(t, "127.0.0.1")
	if _, err := greeting(d, addr); err == nil {
		t.Error("a server of an authority that is not trusted yet is accepted")
	}
	next, err := os.ReadFile(after.file)
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, before.file, string(next))
	if _, err := greeting(d, addr); err != nil {
		t.Errorf("the file has the new authority: %v", err)
	}
}

func TestFilesOfTLSMustBeUsableAtTheStart(t *testing.T) {
	empty := writeFile(t, "empty.pem", "nothing")
	for _, c := range []TLSConfig{{CAFile: empty}, {CertFile: empty, KeyFile: empty}} {
		if _, err := newDialer(c, DefaultTimeout); err == nil || !strings.Contains(err.Error(), empty) {
			t.Errorf("%+v gives %v: want an error that names the file", c, err)
		}
	}
}

func TestAHandshakeThatHangsIsEndedByTheTimeout(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	d, err := newDialer(TLSConfig{}, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := greeting(d, listener.Addr().String()); err == nil {
		t.Error("a server that never shakes hands is connected")
	}
}
