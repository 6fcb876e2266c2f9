package callcmd

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/weirproxy/weir/backend/backendtest/certstest"
	"github.com/weirproxy/weir/cmd/weir/certs"
)

// The service requires client certificates of the same authority.
func TestCallUsesMutualTLS(t *testing.T) {
	authority, dir := certstest.New(t, "authority"), t.TempDir()
	ca, cert, key := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	certificate, itsKey := authority.Issue(t, "weir.test", "127.0.0.1")
	certstest.Mount(t, dir, map[string][]byte{"ca.crt": authority.PEM, "tls.crt": certificate, "tls.key": itsKey})
	config, err := certs.Server(certs.Files{Cert: cert, Key: key, CA: ca}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, addr := serveFake(t, always(responseOf(perMinute(10, 9, 30*time.Second))), grpc.Creds(credentials.NewTLS(config)))
	for _, tc := range []struct {
		promise string
		flags   []string
		code    int
		stderr  string
	}{
		{"with both certificates it is answered", []string{"--tls", "--ca", ca, "--cert", cert, "--key", key}, 0, ""},
		{"so it is by the server's other name", []string{"--tls", "--ca", ca, "--cert", cert, "--key", key, "--server-name", "weir.test"}, 0, ""},
		{"another name is refused", []string{"--tls", "--ca", ca, "--cert", cert, "--key", key, "--server-name", "other.test"}, 2, "other.test"},
		{"an unknown authority is refused", []string{"--tls", "--cert", cert, "--key", key}, 2, "unknown authority"},
		{"plaintext is not understood", nil, 2, "if TLS is spoken there, add --tls"},
		{"flags without --tls are a mistake", []string{"--ca", ca}, 2, "add --tls"},
		{"a file that is missing is named", []string{"--tls", "--ca", filepath.Join(dir, "other.crt")}, 2, "other.crt"},
		{"a certificate needs its key", []string{"--tls", "--cert", cert}, 2, "go together"},
	} {
		got := runCall(t.Context(), t, append([]string{"--addr", addr, "--domain", "d", "--descriptor", "k=v"}, tc.flags...)...)
		if got.code != tc.code || !strings.Contains(got.stderr, tc.stderr) {
			t.Errorf("%s: exit code %d, %q; want %d and %q", tc.promise, got.code, got.stderr, tc.code, tc.stderr)
		}
	}
}
