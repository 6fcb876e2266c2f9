package topology

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// list writes texts as a sentinel does.
func list(texts ...string) string {
	out := fmt.Sprintf("*%d\r\n", len(texts))
	for _, text := range texts {
		out += fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	}
	return out
}

func TestASentinelThatNamesHalfAPrimaryIsTold(t *testing.T) {
	for says, want := range map[string]string{
		list("10.0.0.1"): "with an address and a port", "*0\r\n": "with an address and a port", "*-1\r\n": "it knows no primary of that name",
		"-ERR no\r\n": "ERR no", "*2\r\n$-1\r\n*0\r\n": "", "%1\r\n+a\r\n+b\r\n": "", "*999999999\r\n": "damaged",
	} {
		s := redistest.NewStub(t, func(int, []string) string { return says })
		on, _ := openTopology(t, Config{Type: Sentinel, URL: "weir," + s.Addr})
		redistest.Eventually(t, fmt.Sprintf("%q is told", says), func() error {
			_, err := on.Owner(nil)
			if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), s.Addr) {
				return fmt.Errorf("%v, want the sentinel named, and %q", err, want)
			}
			return nil
		})
	}
}

func TestAMapOfTooManyNodesIsRefused(t *testing.T) {
	slots := fmt.Sprintf("*%d\r\n", maxNodes+1)
	for i := range maxNodes + 1 {
		slots += fmt.Sprintf("*3\r\n:%d\r\n:%d\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", i, i, i+1)
	}
	s := redistest.NewStub(t, func(int, []string) string { return slots })
	on, log := openTopology(t, Config{Type: Cluster, URL: s.Addr})
	for range 2 {
		if _, err := on.Servers(t.Context()); err == nil || !strings.Contains(err.Error(), "names 1001 nodes") {
			t.Errorf("%v, want the map refused", err)
		}
	}
	if n := strings.Count(log.String(), "the map of a cluster cannot be used"); n != 1 {
		t.Errorf("told %d times, want once:\n%s", n, log)
	}
}

func TestNoServerNamesAPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c, _ := Config{URL: "redis:1"}.withDefaults()
	o, err := newOptions(c, newLosses(Config{}))
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := o.dial(target{network: "tcp", addr: "redis:1"})(t.Context(), "unix", path); err == nil {
		t.Errorf("a cluster's node is reached at %s", conn.RemoteAddr())
	}
}
