package topology

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"
)

// Servers reaches the servers of a configuration. All methods may be called by any number of goroutines.
type Servers struct {
	Config Config // with its defaults; it stays as it is

	topology Topology
	cluster  *cluster // nil where there is none
	ring     *ring    // likewise
	rights   string
	losses   *atomic.Uint64
	borrowed bool // another one closes them
}

// Connect checks a configuration and makes its servers. It contacts none of them. Errors name the rights that the caller
// needs of each server, as rules of an ACL: "~weir:* +get".
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

// WithRights returns the same servers for a use with other rights and another log. Only s closes them.
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

// NameOf returns the name of the server behind a client, for people.
func (s *Servers) NameOf(client *goredis.Client) string { return s.describe(client).Name }

// AddLoss notes that a server was away, and may have lost its counts. A cluster is asked who takes its place.
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

// Losses returns how often a server may have lost its counts, or keys went to another one without theirs.
func (s *Servers) Losses() uint64 { return s.losses.Load() }

// Redirects reports whether servers send commands on to each other, each by its key: then a command has one key.
func (s *Servers) Redirects() bool { return s.cluster != nil }

// setCluster is the remedy if a node of a cluster is configured as a single server.
const setCluster = "set the type to cluster"

var errMisrouted = errors.New("the server is part of a cluster and another one owns the key")

// Redirected returns the client of the server at addr, to which from redirects: by MOVED if forGood, else by ASK.
func (s *Servers) Redirected(from *goredis.Client, addr string, forGood bool) (*goredis.Client, error) {
	if s.cluster == nil {
		return nil, fmt.Errorf("%w: %s", errMisrouted, setCluster)
	}
	if forGood {
		s.cluster.reload()
	}
	return s.cluster.clientAt(from, addr)
}

// Nodes returns the names of a ring's nodes, in order; nil where there is no ring.
func (s *Servers) Nodes() []string {
	if s.ring == nil {
		return nil
	}
	return s.ring.names()
}

// Join adds the nodes of a list to a ring with fixed nodes, but for those that it has, and returns the names of all in it.
// One that is written without TLS and credentials has those of the ring's first.
func (s *Servers) Join(list string) ([]string, error) {
	if s.ring == nil || !s.Config.Fixed {
		return nil, errors.New("redis: only a ring with fixed nodes can be joined")
	}
	return s.ring.join(list)
}

// OnNodeChange has f called when a node of a ring is lost, is back, or has come or left. f must not wait.
func (s *Servers) OnNodeChange(f func()) {
	if s.ring != nil {
		s.ring.mu.Lock()
		defer s.ring.mu.Unlock()
		s.ring.onChange = append(s.ring.onChange, f)
	}
}

// NodeLost reports whether a ring has a node of that name that counts as lost.
func (s *Servers) NodeLost(name string) bool {
	if s.ring == nil {
		return false
	}
	n := s.ring.byName(name)
	return n != nil && n.missed.Load() >= maxMissed
}

// Destination is the server that a request is for: the owner of a key, or a node of a ring with fixed nodes.
type Destination struct {
	Key  []byte
	Node string
}

// Locate returns the client of the server that a request is for, nil with an error.
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

// Each asks every server that should answer, one after the other, and joins the errors. A command is sent once.
func (s *Servers) Each(ctx context.Context, ask func(name string, do func(command ...any) (any, error)) error) error {
	all, err := s.All(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, server := range all {
		failed = errors.Join(failed, ask(server.Name, func(command ...any) (any, error) {
			return server.Client.Do(ctx, command...).Result()
		}))
	}
	return failed
}
