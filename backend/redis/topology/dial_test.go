package topology

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/certstest"
)

// dialTLS reports whether there is a TLS connection to an address in time.
func dialTLS(t *testing.T, addr string, config *tls.Config, timeout time.Duration) error {
	t.Helper()
	c, err := Config{URL: addr, TLS: true, TLSConfig: func() *tls.Config { return config }, Timeout: timeout}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	o := &options{Config: c}
	conn, err := o.dial(target{})(t.Context(), "tcp", addr)
	if err == nil {
		err = conn.Close()
	}
	return err
}

func TestServerMustHaveTheExpectedName(t *testing.T) {
	authority, roots := certstest.New(t, "authority"), x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.PEM)
	for _, test := range []struct {
		certified, asked string
		fine             bool
	}{{"127.0.0.1", "", true}, {"redis", "", false}, {"redis", "redis", true}, {"127.0.0.1", "redis", false}} {
		pair, err := tls.X509KeyPair(authority.Issue(t, test.certified))
		if err != nil {
			t.Fatal(err)
		}
		listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		go func() {
			if conn, err := listener.Accept(); err == nil {
				_ = conn.(*tls.Conn).Handshake() // the client looks at what came
			}
		}()
		config := &tls.Config{RootCAs: roots, ServerName: test.asked}
		err = dialTLS(t, listener.Addr().String(), config, DefaultTimeout*10)
		if (err == nil) != test.fine {
			t.Errorf("a server of the name %s, where %q is asked for: %v; accepted should be %t",
				test.certified, test.asked, err, test.fine)
		}
	}
}

func TestHangingHandshakeEndsAtTheTimeout(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := dialTLS(t, listener.Addr().String(), nil, 50*time.Millisecond); err == nil {
		t.Error("a server that never shakes hands is connected")
	}
}
