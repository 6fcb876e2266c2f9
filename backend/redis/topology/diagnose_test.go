package topology

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// moved1 is what a server of a cluster answers for a key of another one.
type moved1 struct{}

func (moved1) Error() string { return "MOVED 1 b:1" }
func (moved1) RedisError()   {}

func TestDiagnoseSuggestsClusterOnlyForSingle(t *testing.T) {
	const hint = "set the type to cluster"
	for kind, want := range map[Type]bool{Single: true, Cluster: false} {
		s, _ := openServers(t, Config{Type: kind, URL: "127.0.0.1:1"})
		err := s.Diagnose(Server{Name: "a:1"}, "get", moved1{})
		if err == nil || strings.Contains(err.Error(), hint) != want || !strings.HasPrefix(err.Error(), "a:1: GET: MOVED") {
			t.Errorf("%s: %v; want the server, the command, and %q only where that helps", kind, err, hint)
		}
	}
}

// Whoever looks at a key of a ring knows only the client of its node.
func TestRingNodesAreNamedAsConfigured(t *testing.T) {
	s, _ := openServers(t, Config{Type: Ring, URL: "redis://ann:" + secret + "@127.0.0.1:1/3", Fixed: true})
	client, _ := s.Owner([]byte("a"))
	if err := s.DiagnoseOf(client, "get", errors.New("connection refused")); !strings.HasPrefix(err.Error(), "127.0.0.1:1/3: GET: ") {
		t.Errorf("a node that is away: %v; want it named as in the list, with the command", err)
	}
	err := s.Diagnose(s.describe(client), "get", errors.New("NOPERM this user can't run this command"))
	if !strings.Contains(err.Error(), "ACL SETUSER ann +get") {
		t.Errorf("a node that refuses: %v; want the line that grants its own user what is needed", err)
	}
}

func TestConnectionErrorsNameTheRemedy(t *testing.T) {
	s, _ := openServers(t, Config{URL: "127.0.0.1:1"})
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("redis: all sentinels specified in configuration are unreachable: NOAUTH Authentication required."), "set REDIS_SENTINEL_AUTH"},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, "if it takes TLS, write rediss://"},
		{io.EOF, "if it takes TLS, write rediss://"},
	} {
		if err := s.Diagnose(Server{Name: "a:1"}, "ping", c.err); !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("PING answers %v, which is told as %q, want it to end with %q", c.err, err, c.want)
		}
	}
}
