package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// openTopology makes a topology that logs to the returned log and ends with the test.
func openTopology(t *testing.T, c Config) (Topology, *process.Output) {
	t.Helper()
	s, log := openServers(t, c)
	return s.topology, log
}

// openServers is openTopology with what asks it, by a user who needs to read.
func openServers(t *testing.T, c Config) (*Servers, *process.Output) {
	t.Helper()
	log := new(process.Output)
	c.Log = slog.New(slog.NewTextHandler(log, nil))
	c.Timeout = cmp.Or(c.Timeout, 20*DefaultTimeout) // the machine may stand still
	s, err := Connect(c, "+get")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if text := log.String(); strings.Contains(text, secret) {
			t.Errorf("the password is in the log, where many can read it:\n%s", text)
		}
	})
	return s, log
}

// keyNumber is the Redis key of a check.
func keyNumber(i int) []byte { return fmt.Appendf(nil, "weir:{%d}4:shop4:user%d", i, i) }

// set writes a key where the topology says that it belongs.
func set(on Topology, key []byte) error {
	client, err := on.Owner(key)
	if err != nil {
		return err
	}
	return client.Set(context.Background(), string(key), "1", time.Minute).Err()
}

// isOn wants a key to be on a server and nowhere else.
func isOn(key []byte, owner *redistest.Server, all ...*redistest.Server) error {
	for _, s := range all {
		n, err := s.Client().Exists(context.Background(), string(key)).Result()
		if err != nil {
			return err
		}
		if (n == 1) != (s == owner) {
			return fmt.Errorf("%s: found %d times on %s; its owner is %s", key, n, s.Addr, owner.Addr)
		}
	}
	return nil
}

func TestSingleServerIsReachedInEveryWay(t *testing.T) {
	t.Parallel()
	open := redistest.Single(t, redistest.WithUnixSocket())
	locked := redistest.Single(t, redistest.WithPassword(secret))
	acl := redistest.Single(t, redistest.WithACL("ann", secret, "~weir:*", "+set"))
	mutual := redistest.Single(t, redistest.WithTLS(), redistest.WithPassword(secret))
	tests := []struct {
		way    string
		server *redistest.Server
		config Config
	}{
		{"an address", open, Config{URL: open.Addr}},
		{"a URL", open, Config{URL: "redis://" + open.Addr, SocketType: "tcp"}},
		{"a unix socket", open, Config{URL: open.Socket}},
		{"a unix socket, said twice", open, Config{URL: open.Socket, SocketType: "unix"}},
		{"a unix socket, with TLS for others", open, Config{URL: open.Socket, TLS: true}},
		{"a password", locked, Config{URL: locked.Addr, Auth: secret}},
		{"a password in the URL", locked, Config{URL: "redis://:" + secret + "@" + locked.Addr, Auth: "wrong"}},
		{"a user", acl, Config{URL: acl.Addr, Auth: "ann:" + secret}},
		{"a user in the URL", acl, Config{URL: "redis://ann:" + secret + "@" + acl.Addr}},
		{"a URL in a file", locked, Config{URL: "ignored:1", URLFile: writeFile(t, "url", "redis://:"+secret+"@"+locked.Addr+"\n")}},
		{"TLS by scheme", mutual, Config{URL: "rediss://:" + secret + "@" + mutual.Addr, TLSConfig: mutual.TLS.Client}},
		{"TLS by setting", mutual, Config{URL: mutual.Addr, Auth: secret, TLS: true, TLSConfig: mutual.TLS.Client}},
	}
	for i, test := range tests {
		on, _ := openTopology(t, test.config)
		key := keyNumber(i)
		if err := errors.Join(set(on, key), isOn(key, test.server, test.server)); err != nil {
			t.Errorf("%s: %v", test.way, err)
		}
	}
	on, _ := openTopology(t, Config{URL: "redis://" + open.Addr + "/3"})
	err := set(on, keyNumber(0))
	if keys, _ := open.Info(t.Context(), "keyspace"); err != nil || !strings.HasPrefix(keys["db3"], "keys=1,") {
		t.Errorf("a database: %v, and the server holds %v; want the one key that was written in db3", err, keys)
	}
}

func TestSentinelsLeadToEachNewPrimary(t *testing.T) {
	t.Parallel()
	servers := redistest.Sentinel(t, redistest.WithPassword(secret), redistest.WithSentinelPassword(secret))
	on, _ := openTopology(t, Config{
		Type: Sentinel, URL: servers.Master + "," + strings.Join(servers.Addrs(), ","), Auth: secret, SentinelAuth: secret,
	})
	if err := set(on, keyNumber(1)); err != nil {
		t.Fatal(err)
	}
	var written []string
	for _, addr := range servers.Addrs() {
		written = append(written, "redis://:"+secret+"@"+addr)
	}
	urls, _ := openTopology(t, Config{Type: Sentinel, URL: servers.Master + "," + strings.Join(written, ","), Auth: secret})
	if err := set(urls, keyNumber(1)); err != nil {
		t.Errorf("sentinels as URLs with their password: %v", err)
	}
	before := servers.Await(t)
	after := servers.Failover(t)
	process.Eventually(t, "keys go to the new primary", func() error { return set(on, keyNumber(2)) })
	if err := isOn(keyNumber(2), after, after); err != nil || before == after {
		t.Errorf("after the failover from %s to %s: %v", before.Addr, after.Addr, err)
	}
}

func TestClusterFailoverIsFollowed(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t, redistest.WithPassword(secret))
	on, _ := openTopology(t, Config{Type: Cluster, URL: strings.Join(append(nodes.Addrs()[:2], nodes.Addrs()...), ","), Auth: secret})
	process.Eventually(t, "the map of slots is read when a key is asked for", func() error { return set(on, keyNumber(0)) })
	for i := range 30 {
		key := keyNumber(i)
		owner := nodes.NodeOf(t, string(key))
		if err := errors.Join(set(on, key), isOn(key, owner, owner)); err != nil {
			t.Fatal(err)
		}
	}

	key := keyNumber(0)
	old, err := on.Owner(key)
	if err != nil {
		t.Fatal(err)
	}
	from := nodes.NodeOf(t, string(key))
	to := nodes.Failover(t, from)
	moved := old.Set(context.Background(), string(key), "1", time.Minute).Err()
	addr, ok := goredis.IsMovedError(moved)
	if !ok {
		t.Fatalf("after a failover the old primary says %v, want MOVED", moved)
	}
	redirects := on.(*cluster)
	node, err := redirects.clientAt(old, addr)
	if err != nil || node.Options().Addr != to.Addr {
		t.Fatalf("MOVED to %s leads to %v, %v; want %s", addr, node, err, to.Addr)
	}
	redirects.reload()
	process.Eventually(t, "the new map of slots is used", func() error {
		now, err := on.Owner(key)
		if err == nil && now.Options().Addr != to.Addr {
			err = fmt.Errorf("the key is thought to be on %s, and it is on %s", now.Options().Addr, to.Addr)
		}
		return err
	})
	if now, _ := on.Owner(key); now != nil {
		if again, err := redirects.clientAt(old, addr); err != nil || again != now {
			t.Errorf("redirects lead to client %v, %v; want the one that owns the key, so that it has one queue", again, err)
		}
	}

	to.Kill() // nobody tells of it
	process.Eventually(t, "a replica is found that took over by itself", func() error { return set(on, key) })
}

func TestClusterReachesUnmappedNodes(t *testing.T) {
	t.Parallel()
	stranger := redistest.Single(t)
	on, _ := openTopology(t, Config{Type: Cluster, URL: "127.0.0.1:1"})
	redirects := on.(*cluster)
	_, port, _ := net.SplitHostPort(stranger.Addr)
	from := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:1"})
	defer from.Close()
	named, err := redirects.clientAt(from, stranger.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := named.Ping(context.Background()).Err(); err != nil {
		t.Errorf("a node that has no slots yet: %v", err)
	}
	if again, err := redirects.clientAt(from, ":"+port); err != nil || again != named {
		t.Errorf("a node that does not know its address gives client %v, %v; want that of %s", again, err, stranger.Addr)
	}
	if err := named.Close(); err != nil {
		t.Fatal(err)
	}
	fresh, err := redirects.clientAt(from, stranger.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := fresh.Ping(context.Background()).Err(); err != nil {
		t.Errorf("a node whose client go-redis closed when it left for a minute: %v", err)
	}
	if _, err := redirects.clientAt(from, "nowhere"); err == nil {
		t.Error("nowhere is taken for an address")
	}
}

func TestNobodyWaitsForAnUnavailableServer(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{
		{Type: Single, URL: "127.0.0.1:1"},
		{Type: Sentinel, URL: "weir,127.0.0.1:1"},
		{Type: Cluster, URL: "127.0.0.1:1"},
		{Type: Ring, URL: "127.0.0.1:1"},
	} {
		on, _ := openTopology(t, c)
		err := set(on, keyNumber(1))
		if err == nil {
			t.Errorf("%s: there is no server, but a key was written", c.Type)
		}
		if c.Type == Cluster && !errors.Is(err, ErrUnknownCluster) {
			t.Errorf("an unknown cluster gives %v, want %v: a request must not wait for the map", err, ErrUnknownCluster)
		}
		if c.Type == Ring {
			process.Eventually(t, "the only node is lost", func() error {
				if _, err := on.Owner(keyNumber(1)); !errors.Is(err, errNoNode) {
					return fmt.Errorf("%v, want %w", err, errNoNode)
				}
				return nil
			})
		}
	}
}
