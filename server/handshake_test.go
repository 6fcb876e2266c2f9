package server

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc/credentials"

	"github.com/weirproxy/weir/backend/backendtest/certstest"
	"github.com/weirproxy/weir/cmd/weir/certs"
)

// An operator who requires client certificates must see which clients have none, in a bounded number of lines.
func TestRefusedTLSHandshakesAreLogged(t *testing.T) {
	mesh := certstest.New(t, "mesh")
	config := mustTLS(t, certs.Server, mount(t, t.TempDir(), mesh, "weir"))
	var log bytes.Buffer
	r := &handshakeLogger{TransportCredentials: credentials.NewTLS(config), log: slog.New(slog.NewTextHandler(&log, nil))}
	connect := func(as func(net.Conn)) {
		t.Helper()
		client, conn := net.Pipe()
		go func() { as(client); client.Close() }()
		if _, _, err := r.ServerHandshake(conn); err == nil {
			t.Error("a client without a certificate is let in")
		}
	}
	connect(func(net.Conn) {})
	if log.Len() > 0 {
		t.Errorf("a probe of the port is told: %s", &log)
	}
	for range 3 {
		connect(func(c net.Conn) {
			_ = tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake() // that of a client without a certificate succeeds
			_, _ = c.Read(make([]byte, 1))
		})
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "client=pipe") {
		t.Errorf("three clients are told in %d lines; want one, with an address:\n%s", n, &log)
	}
}
