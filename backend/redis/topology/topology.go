package topology

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"
)

// Topology knows which server owns a key. Its methods may be called by any number of goroutines.
type Topology interface {
	// Owner returns the client of the server that owns a Redis key now, without waiting for any server. The client talks
	// to one server, and never repeats a command. After the server has left, commands fail unsent with goredis.ErrClosed.
	Owner(key []byte) (*goredis.Client, error)

	// Servers lists every server that should answer, for probes. A cluster sends a command to find them.
	Servers(ctx context.Context) ([]Server, error)

	// Close ends all connections and everything that runs in the background, and waits for it.
	Close() error
}

// ErrNoOwner is the error of Owner when no server is known to own the key.
var ErrNoOwner = errors.New("no server owns the key")

// Server is one server of a topology.
type Server struct {
	Name   string // for logs and metrics
	Client *goredis.Client
	Tag    string // a hash tag whose keys this server owns

	login *login
	// LogsLoss means that the topology logs when the server stops or starts to answer.
	LogsLoss bool
}

// probeTag returns the i-th of the hash tags that probes use. The hash tags of descriptors have no space.
func probeTag(i int) string { return fmt.Sprint("probe ", i) }

// newTopology makes the topology of a configuration, whose defaults must be set. It contacts no server.
func newTopology(c Config, l *atomic.Uint64) (Topology, error) {
	o, err := newOptions(c, l)
	if err != nil {
		return nil, err
	}
	url, err := c.readURL()
	if err != nil {
		return nil, err
	}
	open := map[Type]func(string, *options) (Topology, error){
		Ring: newRing, Sentinel: newSentinel, Cluster: newCluster, Single: newSingle,
	}[c.Type]
	if open == nil {
		return nil, fmt.Errorf("redis: type %q: use one of single, sentinel, cluster, ring", string(c.Type))
	}
	t, err := open(url, o)
	if err != nil && c.URLFile != "" {
		err = fmt.Errorf("in %s: %w", c.URLFile, err)
	}
	if err != nil { // err does not quote the URL, which may hold a password
		return nil, fmt.Errorf("redis: %s URL: %w", c.Type, err)
	}
	return t, nil
}

// singleClient is a topology of one client: a single server, or the primary that sentinels name.
type singleClient struct{ Server }

func newSingle(url string, o *options) (Topology, error) {
	t, err := parseSingle(url, o.SocketType)
	if err != nil {
		return nil, err
	}
	return newSingleClient(t.name, newClient(o.client(t)), o.login.forTarget(t)), nil
}

// newSentinel makes a client that asks sentinels for the primary at each new connection, and closes all connections
// when they name a new one.
func newSentinel(url string, o *options) (Topology, error) {
	primary, targets, err := parseSentinel(url)
	if err != nil {
		return nil, err
	}
	user, password := splitAuth(o.SentinelAuth)
	var sentinels []string
	for _, t := range targets {
		if t.password != "" {
			user, password = t.user, t.password
		}
		sentinels = append(sentinels, t.addr)
	}
	name := fmt.Sprintf("%s (sentinels %s)", primary, strings.Join(sentinels, ", "))
	client := goredis.NewFailoverClient(newSentinels(o.Config).checkConns(o.failover(primary, sentinels, user, password)))
	client.AddHook(dialHook{reached: countChanges(o.losses)})
	return newSingleClient(name, client, o.login), nil
}

func newSingleClient(name string, client *goredis.Client, l *login) singleClient {
	return singleClient{Server{Name: name, Client: client, Tag: probeTag(0), login: l}}
}

func (s singleClient) Owner([]byte) (*goredis.Client, error) { return s.Client, nil }

func (s singleClient) Servers(context.Context) ([]Server, error) { return []Server{s.Server}, nil }

func (s singleClient) Close() error { return s.Client.Close() }
