package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"path/filepath"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/certs"
	"github.com/weirproxy/weir/cmd/weir/certs/certstest"
)

// secret is a mounted Secret: a certificate, its key, and the authorities to trust.
type secret struct{ dir string }

func newSecret(t testing.TB, authorities *certstest.Authority, by *certstest.Authority, names ...string) secret {
	t.Helper()
	s := secret{t.TempDir()}
	s.renew(t, authorities, by, names...)
	return s
}

// renew replaces all of it in one step.
func (s secret) renew(t testing.TB, authorities *certstest.Authority, by *certstest.Authority, names ...string) {
	t.Helper()
	cert, key := by.Issue(t, names...)
	certstest.Mount(t, s.dir, map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": authorities.PEM})
}

func (s secret) files(san string) certs.Files {
	at := func(name string) string { return filepath.Join(s.dir, name) }
	return certs.Files{Cert: at("tls.crt"), Key: at("tls.key"), CA: at("ca.crt"), SAN: san}
}

func mustTLS(t testing.TB, make func(certs.Files, *slog.Logger) (*tls.Config, error), f certs.Files) *tls.Config {
	t.Helper()
	c, err := make(f, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// hitOver makes a call, and returns the name in the certificate of the server that answered.
func hitOver(t *testing.T, conn *grpc.ClientConn) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), process.Hang)
	defer cancel()
	var server peer.Peer
	if _, err := ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, ask(t, "user=ann"), grpc.Peer(&server)); err != nil {
		return "", err
	}
	return server.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].Subject.CommonName, nil
}

// Both sides' certificates are replaced again and again, while callers come anew for each call.
func TestCertificatesRotateUnderLoadWithoutAFailedCall(t *testing.T) {
	const callers = 4
	rotations := 30
	if testing.Short() {
		rotations = 6
	}
	ca := certstest.New(t, "mesh")
	weirs, envoys := newSecret(t, ca, ca, "weir", "0"), newSecret(t, ca, ca, "envoy", "0")
	r := start(t, setup{Config: Config{TLS: mustTLS(t, certs.Server, weirs.files("envoy"))}})
	r.configure(t)
	client := mustTLS(t, certs.Client, envoys.files("weir"))
	call := func() (string, error) {
		conn, err := grpc.NewClient(r.doors[0].Addr().String(), grpc.WithDisableRetry(),
			grpc.WithTransportCredentials(credentials.NewTLS(client)))
		if err != nil {
			return "", err
		}
		defer conn.Close()
		return hitOver(t, conn)
	}
	if _, err := hitOver(t, r.conn); status.Code(err) != codes.Unavailable {
		t.Errorf("plaintext: got %v, want UNAVAILABLE", err)
	}
	ended, stop := make(chan error), make(chan struct{})
	for range callers {
		go func() {
			for {
				_, err := call()
				select {
				case ended <- err:
				case <-stop:
					return
				}
			}
		}()
	}
	for n := range rotations {
		weirs.renew(t, ca, ca, "weir", string(rune('a'+n)))
		envoys.renew(t, ca, ca, "envoy", string(rune('a'+n)))
		for range 3 * callers {
			if err := <-ended; err != nil {
				t.Errorf("a call beside rotation %d: %v", n, err)
			}
		}
	}
	close(stop)
	if name, err := call(); err != nil || name != "weir "+string(rune('a'+rotations-1)) {
		t.Errorf("at the end the server shows %q, %v; want its newest certificate", name, err)
	}
}
