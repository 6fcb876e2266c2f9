package redis

import (
	"context"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// topology says which server owns a key. Its methods may be called by any number of goroutines.
type topology interface {
	// shard gives the client of the server that owns a Redis key now, and waits for no server. The client talks to one
	// server only, and never repeats a command by itself. When the server has left the topology, and what was on its way
	// there has had its time, its commands fail with goredis.ErrClosed, unsent.
	shard(key []byte) (*goredis.Client, error)

	// servers gives every server that should answer, for probes. A cluster has to be asked for them.
	servers(ctx context.Context) ([]server, error)

	// close ends all connections and everything that runs in the background, and waits for it.
	close() error
}

// redirecting is what a topology also is whose servers may answer MOVED and ASK: a cluster.
type redirecting interface {
	// at gives the client of the server at addr, as the reply of the server behind from names it.
	at(from *goredis.Client, addr string) (*goredis.Client, error)

	// reload asks in the background, and at most five times a second, which server owns what. It is worth a call
	// after MOVED, READONLY, CLUSTERDOWN, and when a server does not answer.
	reload()
}

// server is one server of a topology.
type server struct {
	name   string
	client *goredis.Client
	key    []byte // a Redis key that this server owns
	login  *login
	rules  []string // of its ACL, beside those for counting
	told   bool     // its topology logs by itself when it does not answer
}

// newTopology makes the topology that a configuration names. It checks the configuration and contacts no server.
func newTopology(c Config) (topology, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	o, err := newOptions(c)
	if err != nil {
		return nil, err
	}
	if c.Type == Ring {
		return newRing(c, o)
	}
	url, err := c.readURL()
	if err != nil {
		return nil, err
	}
	var t topology
	switch c.Type {
	case Sentinel:
		t, err = newSentinel(url, c.SentinelAuth, o)
	case Cluster:
		t, err = newCluster(url, o)
	default:
		t, err = newSingle(url, c.SocketType, o)
	}
	return t, c.blame(err)
}

// one is a topology of one client: a single server, or the primary that sentinels name.
type one struct{ server }

func newSingle(url, socketType string, o *options) (topology, error) {
	t, err := parseSingle(url, socketType)
	if err != nil {
		return nil, err
	}
	return newOne(t.name, goredis.NewClient(o.client(t)), o.login.of(t)), nil
}

// newSentinel makes a client that asks the sentinels for the primary whenever it needs a new connection, and drops its
// connections when they announce another primary.
func newSentinel(url, auth string, o *options) (topology, error) {
	primary, sentinels, err := parseSentinel(url)
	if err != nil {
		return nil, err
	}
	user, password := splitAuth(auth)
	name := fmt.Sprintf("%s (sentinels %s)", primary, strings.Join(sentinels, ", "))
	return newOne(name, goredis.NewFailoverClient(o.failover(primary, sentinels, user, password)), o.login), nil
}

func newOne(name string, client *goredis.Client, l *login) one {
	return one{server{name: name, client: client, key: probeKey(0), login: l}}
}

func (o one) shard([]byte) (*goredis.Client, error) { return o.client, nil }

func (o one) servers(context.Context) ([]server, error) {
	return []server{o.server}, nil
}

func (o one) close() error { return o.client.Close() }
