package callcmd

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/weirproxy/weir/cmd/weir/certs"
	"github.com/weirproxy/weir/cmd/weir/certs/certstest"
)

// serveTLS starts a service on 127.0.0.1 that asks clients for certificates. It returns its address and a folder with
// ca.crt, tls.crt and tls.key of the authority of both.
func serveTLS(t *testing.T) (addr, dir string) {
	t.Helper()
	authority := certstest.New(t, "authority")
	cert, key := authority.Issue(t, "weir.test", "127.0.0.1")
	dir = t.TempDir()
	certstest.Mount(t, dir, map[string][]byte{"ca.crt": authority.PEM, "tls.crt": cert, "tls.key": key})
	files := certs.Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt")}
	config, err := certs.Server(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, addr = serveFake(t, always(answered(perMinute(10, 9, 30*time.Second))), grpc.Creds(credentials.NewTLS(config)))
	return addr, dir
}

func TestItAsksByTLS(t *testing.T) {
	addr, dir := serveTLS(t)
	ca, cert, key := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
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
		{"plaintext is not understood", nil, 2, "cannot reach"},
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
