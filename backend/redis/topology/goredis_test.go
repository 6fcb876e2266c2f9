package topology

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

func TestGoRedisRepeatsNothingOnAnyTopology(t *testing.T) {
	for _, c := range []Config{
		{Type: Single, URL: "127.0.0.1:1"},
		{Type: Sentinel, URL: "weir,127.0.0.1:1"},
		{Type: Ring, URL: "127.0.0.1:1", Fixed: true},
		{Type: Cluster, URL: "127.0.0.1:1"},
	} {
		c.Timeout, c.PoolSize = 300*time.Millisecond, 7
		on, _ := openTopology(t, c)
		var client *goredis.Client
		var err error
		if cl, ok := on.(*cluster); ok {
			_, _ = cl.client.MasterForKey(context.Background(), "") // it makes the node's client, and finds nobody
			client, err = cl.clientAt(nil, "127.0.0.1:1")
			if len(cl.unmapped) != 0 {
				t.Error("go-redis has made no client for the node")
			}
		} else {
			client, err = on.Owner(keyNumber(1))
		}
		if err != nil {
			t.Fatalf("%s: %v", c.Type, err)
		}
		o := client.Options()
		// go-redis writes none as 0 once it has understood -1.
		if o.MaxRetries > 0 || o.MinRetryBackoff > 0 || o.DialerRetries != 1 {
			t.Errorf("%s: %d repeats after %v, %d dials: a count could be repeated",
				c.Type, o.MaxRetries, o.MinRetryBackoff, o.DialerRetries)
		}
		if !o.ContextTimeoutEnabled {
			t.Errorf("%s: the deadline of a batch would be ignored", c.Type)
		}
		for name, d := range map[string]time.Duration{
			"dial": o.DialTimeout, "read": o.ReadTimeout, "write": o.WriteTimeout, "pool": o.PoolTimeout,
		} {
			if d != c.Timeout {
				t.Errorf("%s: the %s timeout is %v, want %v", c.Type, name, d, c.Timeout)
			}
		}
		if o.PoolSize != 7 || o.PipelinePoolSize >= 0 {
			t.Errorf("%s: %d connections and %d for pipelines, want 7 in all", c.Type, o.PoolSize, o.PipelinePoolSize)
		}
		if !o.DisableIdentity || o.MaintNotificationsConfig.Mode != maintnotifications.ModeDisabled {
			t.Errorf("%s: a new connection says more than HELLO", c.Type)
		}
		if cl, ok := on.(*cluster); ok && cl.client.Options().MaxRedirects != 0 {
			t.Errorf("go-redis follows %d redirects by itself, want none", cl.client.Options().MaxRedirects)
		}
	}
}

func TestDefaultsAreFilledIn(t *testing.T) {
	c, err := Config{URL: "redis:6379"}.withDefaults()
	if err != nil || c.PoolSize != DefaultPoolSize || c.Timeout != DefaultTimeout || c.Log == nil ||
		c.ProbePause != DefaultProbePause || c.LongestProbePause != DefaultLongestProbePause || c.GiveUp != 0 {
		t.Errorf("the defaults are %+v, %v", c, err)
	}
}

func TestOpenRefusesUnusableConfigurations(t *testing.T) {
	tests := []struct {
		config Config
		want   string
	}{
		{Config{}, "no URL says where it is"},
		{Config{URL: "a:1", Type: "some"}, `type "some": use one of single, sentinel, cluster, ring`},
		{Config{URL: "a:1", SocketType: "udp"}, `socket type "udp": use tcp or unix`},
		{Config{URL: "a:1", Auth: secret, AuthFile: "f"}, "use one of them"},
		{Config{URL: "a:1", AuthFile: "/nowhere/auth"}, "/nowhere/auth"},
		{Config{URLFile: "/nowhere/url"}, "/nowhere/url"},
		{Config{Type: Ring, URLFile: "/nowhere/nodes"}, "/nowhere/nodes"},
		{Config{URLFile: "/dev/zero"}, "/dev/zero is not a regular file of 1 MiB at most"},
		{Config{URL: "redis://:" + secret}, "redis: single URL: it is not a URL"},
		{Config{URLFile: "redis://:" + secret + "@a:1"}, "the file of the URL is a URL"},
		{Config{Type: Ring, URL: "a:1,a:1"}, "redis: ring URL: items 1 and 2 are both a:1"},
		{Config{Type: Sentinel, URL: "weir"}, "redis: sentinel URL: sentinels are written as"},
		{Config{Type: Cluster, URL: "a"}, "redis: cluster URL: item 1: it has no port"},
	}
	for _, test := range tests {
		_, err := Connect(test.config, "")
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%+v gives %v, want an error with %q", test.config, err, test.want)
		}
		if strings.HasPrefix(test.want, "/nowhere/") && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v gives %v, want it to wrap %v", test.config, err, fs.ErrNotExist)
		}
	}
}

func TestTypeAndNodeLossIgnoreCase(t *testing.T) {
	var kind Type
	var loss NodeLoss
	err := errors.Join(kind.UnmarshalText([]byte("Cluster")), loss.UnmarshalText([]byte("PIN")))
	if err != nil || kind != Cluster || loss != Pin {
		t.Errorf("Cluster and PIN are read as %v and %v, %v", kind, loss, err)
	}
	err = kind.UnmarshalText([]byte("standalone"))
	if err == nil || !strings.Contains(err.Error(), "single, sentinel, cluster, ring") {
		t.Errorf("standalone gives %v, want an error that lists the types", err)
	}
	if err := loss.UnmarshalText([]byte("move")); err == nil || !strings.Contains(err.Error(), "remap or pin") {
		t.Errorf("move gives %v, want an error that lists what can be", err)
	}
}

// A connection is counted until it is closed; and go-redis still sees through the counting whether the server has
// closed it, before it sends a command that must not be sent twice.
func TestOpenConnectionsAreCounted(t *testing.T) {
	server := redistest.Single(t)
	var n Connections
	servers, err := Connect(Config{URL: server.Addr, Timeout: time.Minute, PoolSize: 1, Connections: &n}, "")
	if err != nil {
		t.Fatal(err)
	}
	client, err := servers.Owner([]byte("k"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(3) {
		if err := client.Incr(t.Context(), "k").Err(); err != nil {
			t.Errorf("count %d: %v; want it on a new connection, as the server has closed the last one", i, err)
		}
		if n.Open() != 1 || n.Opened.Load() != i+1 {
			t.Errorf("%d connections are open, and %d were opened; want 1, and %d", n.Open(), n.Opened.Load(), i+1)
		}
		if err := server.Client().ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := servers.Close(); err != nil {
		t.Error(err)
	}
	if n.Open() != 0 {
		t.Errorf("%d connections are open after all; want none", n.Open())
	}
}
