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

	"github.com/weirproxy/weir/backend/backendtest/certstest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/certs"
)

// mount replaces a mounted Secret in one step: a certificate, its key, and the trusted authority.
func mount(t testing.TB, dir string, by *certstest.Authority, names ...string) certs.Files {
	t.Helper()
	cert, key := by.Issue(t, names...)
	certstest.Mount(t, dir, map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": by.PEM})
	at := func(name string) string { return filepath.Join(dir, name) }
	return certs.Files{Cert: at("tls.crt"), Key: at("tls.key"), CA: at("ca.crt")}
}

func mustTLS(t testing.TB, make func(certs.Files, *slog.Logger) (*tls.Config, error), f certs.Files) *tls.Config {
	t.Helper()
	c, err := make(f, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serverName makes a call, and returns the name in the server's certificate.
func serverName(t *testing.T, conn *grpc.ClientConn) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), process.Hang)
	defer cancel()
	var server peer.Peer
	if _, err := ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, ask(t, "user=ann"), grpc.Peer(&server)); err != nil {
		return "", err
	}
	return server.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].Subject.CommonName, nil
}

// The certificates of both sides are replaced repeatedly, while each call uses a new connection.
func TestRotatingCertificatesFailNoCall(t *testing.T) {
	const callers = 4
	rotations := 30
	if testing.Short() {
		rotations = 6
	}
	ca := certstest.New(t, "mesh")
	weirs, envoys := t.TempDir(), t.TempDir()
	ofWeir, ofEnvoy := mount(t, weirs, ca, "weir", "0"), mount(t, envoys, ca, "envoy", "0")
	ofWeir.SAN, ofEnvoy.SAN = "envoy", "weir"
	r := start(t, setup{Config: Config{TLS: mustTLS(t, certs.Server, ofWeir)}})
	r.configure(t)
	client := mustTLS(t, certs.Client, ofEnvoy)
	call := func() (string, error) {
		conn, err := grpc.NewClient(r.listener.Addr().String(), grpc.WithDisableRetry(),
			grpc.WithTransportCredentials(credentials.NewTLS(client)))
		if err != nil {
			return "", err
		}
		defer conn.Close()
		return serverName(t, conn)
	}
	if _, err := serverName(t, r.conn); status.Code(err) != codes.Unavailable {
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
		mount(t, weirs, ca, "weir", string(rune('a'+n)))
		mount(t, envoys, ca, "envoy", string(rune('a'+n)))
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
