package topology

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"
)

// Servers are the servers of a configuration. All methods may be called by any number of goroutines.
type Servers struct {
	Config Config // with its defaults; never changed

	topology Topology
	cluster  *cluster // the topology, if it is a cluster, else nil
	ring     *ring    // the topology, if it is a ring, else nil
	rights   string
	losses   *atomic.Uint64
	borrowed bool // another Servers closes them
}

// Connect checks a configuration and makes the clients of its servers. It contacts none of them. rights are the ACL
// rules that the caller needs on each server, such as "~weir:* +get"; errors name them.
func Connect(c Config, rights string) (*Servers, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	l := new(atomic.Uint64)
	t, err := newTopology(c, l)
	if err != nil {
		return nil, err
	}
	return newServers(t, c, rights, l), nil
}

func newServers(t Topology, c Config, rights string, losses *atomic.Uint64) *Servers {
	s := &Servers{topology: t, Config: c, rights: rights, losses: losses}
	s.cluster, _ = t.(*cluster)
	s.ring, _ = t.(*ring)
	return s
}

// WithRights returns the same servers with other rights and another log. Only s closes them.
func (s *Servers) WithRights(rights string, log *slog.Logger) *Servers {
	c := s.Config
	c.Log = log
	same := newServers(s.topology, c, rights, s.losses)
	same.borrowed = true
	return same
}

// Close ends all connections.
func (s *Servers) Close() error {
	if s.borrowed {
		return nil
	}
	return s.topology.Close()
}

// Owner returns the client of the server that owns a Redis key now, without waiting for any server; see [Topology].
func (s *Servers) Owner(key []byte) (*goredis.Client, error) { return s.topology.Owner(key) }

// NameOf returns the name of the server behind a client, for logs and metrics.
func (s *Servers) NameOf(client *goredis.Client) string { return s.describe(client).Name }

// AddLoss counts that a server was away and may have lost its counts. In a cluster it reloads the map of slots.
func (s *Servers) AddLoss() {
	s.losses.Add(1)
	s.Reload()
}

// Reload reads a cluster's map of slots in the background, at most five times a second.
func (s *Servers) Reload() {
	if s.cluster != nil {
		s.cluster.reload()
	}
}

// Losses returns how often a server may have lost its counts, or keys moved to another server without their counts.
func (s *Servers) Losses() uint64 { return s.losses.Load() }

// Redirects reports whether servers redirect commands by their key, as in a cluster. Then a command may have only one
// key.
func (s *Servers) Redirects() bool { return s.cluster != nil }

// setCluster is the remedy if a node of a cluster is configured as another type.
const setCluster = "set the type to cluster"

var errMisrouted = errors.New("the server is part of a cluster and another one owns the key")

// Redirected returns the client of the server at addr, to which from has redirected a command: by MOVED if moved, else
// by ASK.
func (s *Servers) Redirected(from *goredis.Client, addr string, moved bool) (*goredis.Client, error) {
	if s.cluster == nil {
		return nil, fmt.Errorf("%w: %s", errMisrouted, setCluster)
	}
	if moved {
		s.cluster.reload()
	}
	return s.cluster.clientAt(from, addr)
}

// Nodes returns the sorted names of a ring's nodes; nil for other topologies.
func (s *Servers) Nodes() []string {
	if s.ring == nil {
		return nil
	}
	return s.ring.names()
}

// Join adds the nodes of a list that a ring with fixed nodes lacks, and returns the names of all nodes of the list. A
// node that is written without TLS and credentials gets those of the ring's first node.
func (s *Servers) Join(list string) ([]string, error) {
	if s.ring == nil || !s.Config.Fixed {
		return nil, errors.New("redis: only a ring with fixed nodes can be joined")
	}
	return s.ring.join(list)
}

// OnNodeChange makes the servers call f when a node of a ring is lost, is back, joins or leaves. f must not block.
func (s *Servers) OnNodeChange(f func()) {
	if s.ring != nil {
		s.ring.mu.Lock()
		defer s.ring.mu.Unlock()
		s.ring.onChange = append(s.ring.onChange, f)
	}
}

// NodeLost reports whether a node of the ring with that name is lost.
func (s *Servers) NodeLost(name string) bool {
	if s.ring == nil {
		return false
	}
	n := s.ring.byName(name)
	return n != nil && n.missed.Load() >= maxMissed
}

// Destination names a server: the owner of a key or, if Node is set, a node of a ring with fixed nodes.
type Destination struct {
	Key  []byte
	Node string
}

// Locate returns the client of a destination.
func (s *Servers) Locate(at Destination) (*goredis.Client, error) {
	if at.Node == "" {
		return s.topology.Owner(at.Key)
	}
	if s.ring != nil {
		if n := s.ring.byName(at.Node); n != nil {
			return n.client, nil
		}
	}
	return nil, fmt.Errorf("redis: the ring has no node %q", at.Node)
}

// Each calls visit for every server that should answer, one after the other, and joins the errors. do sends a command
// once.
func (s *Servers) Each(ctx context.Context, visit func(name string, do func(command ...any) (any, error)) error) error {
	all, err := s.All(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, server := range all {
		failed = errors.Join(failed, visit(server.Name, func(command ...any) (any, error) {
			return server.Client.Do(ctx, command...).Result()
		}))
	}
	return failed
}
