package config

import (
	"crypto/tls"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/certstest"
)

func TestServingPortReadsItsCertificateSettings(t *testing.T) {
	authority, dir := certstest.New(t, "mesh"), t.TempDir()
	cert, key := authority.Issue(t, "weir")
	certstest.Mount(t, dir, map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": authority.PEM})
	files := "GRPC_SERVER_TLS_CERT=" + filepath.Join(dir, "tls.crt") + " GRPC_SERVER_TLS_KEY=" + filepath.Join(dir, "tls.key")
	read := func(variables string) (*tls.Config, error) {
		s := mustRead(t, variables)
		return s.GRPCTLS(slog.New(slog.DiscardHandler))
	}
	if config, err := read(files); config != nil || err != nil {
		t.Errorf("without GRPC_SERVER_USE_TLS the port has TLS %+v, %v; want none", config, err)
	}
	const on = "GRPC_SERVER_USE_TLS=true "
	client := " GRPC_CLIENT_TLS_SAN=envoy GRPC_CLIENT_TLS_CACERT=" + filepath.Join(dir, "ca.crt")
	for clients, want := range map[string]tls.ClientAuthType{"": tls.NoClientCert, client: tls.RequireAndVerifyClientCert} {
		config, err := read(on + files + clients)
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.GetConfigForClient(nil)
		if err != nil || c.ClientAuth != want || (c.VerifyConnection != nil) != (clients != "") {
			t.Errorf("with %q a client meets %+v, %v; want %v", clients, c, err, want)
		}
	}
	const names = "GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY, GRPC_CLIENT_TLS_CACERT: open /away.key"
	_, err := read(on + files + client + " GRPC_SERVER_TLS_KEY=/away.key")
	if err == nil || !strings.Contains(err.Error(), names) {
		t.Errorf("of a key that is away the error is %v, want %q", err, names)
	}
}

func TestCommandsFindTheServersPorts(t *testing.T) {
	for _, c := range []struct{ host, port, socket, admin, grpc string }{
		{"", "", "", "127.0.0.1:6070", "127.0.0.1:8081"},
		{"0.0.0.0", "7070", "", "127.0.0.1:7070", "127.0.0.1:7070"},
		{"::", "7070", "", "[::1]:7070", "[::1]:7070"},
		{"[::]", "7070", "", "[::1]:7070", "[::1]:7070"},
		{"10.0.0.7", "7070", "", "10.0.0.7:7070", "10.0.0.7:7070"},
		{"localhost", "1", "", "localhost:1", "localhost:1"},
		{"10.0.0.7", "7081", "/run/weir.sock", "10.0.0.7:7081", "unix:/run/weir.sock"},
	} {
		for _, name := range []string{"DEBUG", "GRPC"} {
			t.Setenv(name+"_HOST", c.host)
			t.Setenv(name+"_PORT", c.port)
		}
		t.Setenv("GRPC_UDS", c.socket)
		if admin := AdminAddress(); admin != c.admin || GRPCAddress() != c.grpc {
			t.Errorf("of %+v the admin port is %s, gRPC's %s", c, admin, GRPCAddress())
		}
	}
}
