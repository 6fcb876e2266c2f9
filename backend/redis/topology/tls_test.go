package topology

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/cmd/weir/certs/certstest"
)

// authority signs certificates, and its own is in a file.
type authority struct {
	*certstest.Authority
	file string
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	signs := certstest.New(t, "authority")
	return authority{signs, writeFile(t, "ca.pem", string(signs.PEM))}
}

// issue writes the certificate of a name, and its key.
func (a authority) issue(t *testing.T, certFile, keyFile, name string) {
	t.Helper()
	cert, key := a.Issue(t, name)
	rewrite(t, certFile, string(cert))
	rewrite(t, keyFile, string(key))
}

// greeter is a TLS server that is certified for names and greets each client with the client's name.
func (a authority) greeter(t *testing.T, names ...string) (addr string) {
	t.Helper()
	pair, err := tls.X509KeyPair(a.Issue(t, names...))
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
	ours, theirs, public := newAuthority(t), newAuthority(t), authority{Authority: certstest.Public(t)}
	right, other, stranger := ours.greeter(t, "127.0.0.1"), ours.greeter(t, "redis"), theirs.greeter(t, "127.0.0.1")
	anybody := public.greeter(t, "127.0.0.1", "redis")
	strict := tlsDialer(t, TLSConfig{CAFile: ours.file})
	lenient := tlsDialer(t, TLSConfig{CAFile: ours.file, SkipHostnameVerification: true})
	named := tlsDialer(t, TLSConfig{CAFile: ours.file, ServerName: "redis"})
	both := tlsDialer(t, TLSConfig{CAFile: ours.file, ServerName: "redis", SkipHostnameVerification: true})
	plain := tlsDialer(t, TLSConfig{})
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
		{"a server of an authority that the system does not know", plain, right, false},
		{"a server of one that it knows", plain, anybody, true},
		{"such a server, where a file has the authorities", strict, anybody, false},
		{"such a server, where any name is allowed", lenient, anybody, false},
		{"such a server, where a name is asked for", named, anybody, false},
		{"a server with the name that is asked for", named, other, true},
		{"a server with that of its address alone", named, right, false},
		{"a server with that of its address alone, where any name would be allowed", both, right, false},
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
	certFile, keyFile := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	a.issue(t, certFile, keyFile, "ann")
	d := tlsDialer(t, TLSConfig{CAFile: a.file, CertFile: certFile, KeyFile: keyFile})
	wantGreeting := func(when, want string) {
		t.Helper()
		if got, err := greeting(d, addr); err != nil || got != want {
			t.Errorf("%s the server sees %q, %v; want %s", when, got, err, want)
		}
	}
	wantGreeting("at first", "ann")
	a.issue(t, certFile, keyFile, "bob")
	wantGreeting("after a renewal", "bob")

	eves, _ := a.Issue(t, "eve")
	rewrite(t, certFile, string(eves)) // the key is still bob's
	wantGreeting("in the midst of a renewal", "bob")
}

func TestAnAuthorityIsReplacedWithoutARestart(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	d := tlsDialer(t, TLSConfig{CAFile: before.file})
	addr := after.greeter(t, "127.0.0.1")
	if _, err := greeting(d, addr); err == nil {
		t.Error("a server of an authority that is not trusted yet is accepted")
	}
	rewrite(t, before.file, string(after.PEM))
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
