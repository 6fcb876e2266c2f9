package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// ClusterSet is a cluster of three primaries with a replica each. Its node timeout is 3 s: a killed primary is replaced in
// about six, or in twelve when its replica has just asked for votes before.
type ClusterSet struct {
	Nodes []*Server // six; the first three are primaries in the beginning, each three before its replica

	ids map[*Server]string // constant
}

const primaries = 3

// Cluster starts three primaries and three replicas, and waits until they are one cluster.
func Cluster(t testing.TB, options ...Option) *ClusterSet {
	t.Helper()
	return keep(t, func(dir string) (*ClusterSet, error) { return StartCluster(dir, options...) })
}

// StartCluster starts three primaries and three replicas, whose files are in dir.
func StartCluster(dir string, options ...Option) (*ClusterSet, error) {
	s, err := newSettings(dir, options)
	if err != nil {
		return nil, err
	}
	s.cluster = true
	nodes, err := startServers(filepath.Join(dir, "cluster"), "cluster", 2*primaries, s)
	if err != nil {
		return nil, err
	}
	c := &ClusterSet{Nodes: nodes, ids: make(map[*Server]string)}
	if err := c.form(); err != nil {
		err = fmt.Errorf("forming a cluster: %w\n%s", err, c.Log())
		c.Close()
		return nil, err
	}
	return c, nil
}

// form does what redis-cli --cluster create does, without its pauses.
func (c *ClusterSet) form() error {
	ctx := context.Background()
	for i, node := range c.Nodes {
		id, err := node.client.Do(ctx, "cluster", "myid").Text()
		if err != nil {
			return err
		}
		c.ids[node] = id
		if i < primaries {
			first, next := i*slots/primaries, (i+1)*slots/primaries
			if err := node.client.ClusterAddSlotsRange(ctx, first, next-1).Err(); err != nil {
				return err
			}
		}
		// Nodes that begin with the same epoch would first have to agree who is older.
		if err := node.client.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return err
		}
		for _, other := range c.Nodes[:i] { // each with each, which is quicker than gossip
			host, port, _ := net.SplitHostPort(other.Addr)
			if err := node.client.ClusterMeet(ctx, host, port).Err(); err != nil {
				return err
			}
		}
	}
	for i, node := range c.Nodes[primaries:] {
		err := await("a replica knows its primary", func(ctx context.Context) error {
			return node.client.ClusterReplicate(ctx, c.ids[c.Nodes[i]]).Err()
		})
		if err != nil {
			return err
		}
	}
	return c.awaitWell()
}

// Addrs returns the addresses of all nodes.
func (c *ClusterSet) Addrs() []string { return addrs(c.Nodes) }

// Await waits until all nodes that are neither killed nor stopped say that the cluster is well, agree on it, and the
// replicas among them have their copies. After a primary was killed, this is when its replica has taken over.
func (c *ClusterSet) Await(t testing.TB) {
	t.Helper()
	if err := c.awaitWell(); err != nil {
		t.Fatal(err)
	}
}

func (c *ClusterSet) awaitWell() error { return await("the cluster is well", c.well) }

func (c *ClusterSet) well(ctx context.Context) error {
	awake := servers(c.Nodes).awake()
	want := ""
	for _, node := range awake {
		info, err := node.client.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		if !strings.Contains(info, "cluster_state:ok") {
			return fmt.Errorf("%s says that its cluster is not well", node.name)
		}
		m, err := c.read(ctx, node)
		if err != nil {
			return err
		}
		seen, err := m.summary(c.idsOf(awake))
		switch {
		case err != nil:
			return fmt.Errorf("%s sees %w", node.name, err)
		case want == "":
			want = seen
		case seen != want:
			return fmt.Errorf("%s sees\n%s, but %s sees\n%s", awake[0].name, want, node.name, seen)
		}
		if m[c.ids[node]].primary == "" {
			continue
		}
		if err := node.linked(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *ClusterSet) idsOf(nodes servers) []string {
	var ids []string
	for _, node := range nodes {
		ids = append(ids, c.ids[node])
	}
	return ids
}

// Primaries returns the nodes that own slots now, in the order of Nodes.
func (c *ClusterSet) Primaries(t testing.TB) []*Server {
	t.Helper()
	m := c.ask(t)
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(s *Server) bool { return len(m[c.ids[s]].slots) == 0 })
}

// Replica returns a node that can answer and follows primary.
func (c *ClusterSet) Replica(t testing.TB, primary *Server) *Server {
	t.Helper()
	m := c.ask(t)
	for _, node := range servers(c.Nodes).awake() {
		if m[c.ids[node]].primary == c.ids[primary] {
			return node
		}
	}
	t.Fatalf("no node follows %s: it is no primary, or its replica was killed or stopped", primary.name)
	return nil
}

// SlotOf returns the slot that a key is in.
func (c *ClusterSet) SlotOf(t testing.TB, key string) int {
	t.Helper()
	slot, err := servers(c.Nodes).awake()[0].client.ClusterKeySlot(context.Background(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return int(slot)
}

// NodeOf returns the primary that owns a key's slot.
func (c *ClusterSet) NodeOf(t testing.TB, key string) *Server {
	t.Helper()
	slot := c.SlotOf(t, key)
	m := c.ask(t)
	for _, node := range c.Nodes {
		if m[c.ids[node]].owns(slot) {
			return node
		}
	}
	t.Fatalf("slot %d of key %q has no owner", slot, key)
	return nil
}

// Failover lets primary's replica take over while both are well. It returns the new primary once all nodes know it and
// the old one follows it.
func (c *ClusterSet) Failover(t testing.TB, primary *Server) *Server {
	t.Helper()
	replica := c.Replica(t, primary)
	var asked time.Time
	mustAwait(t, "a replica takes over", func(ctx context.Context) error {
		m, err := c.read(ctx, replica)
		switch {
		case err != nil:
			return err
		case m[c.ids[replica]].primary == "":
			return nil
		case time.Since(asked) < 6*time.Second:
			return errors.New("it has been asked to")
		}
		if err = replica.client.ClusterFailover(ctx).Err(); err == nil {
			asked = time.Now() // nodes give up after 5 s
			err = errors.New("it has just been asked to")
		}
		return err
	})
	c.Await(t)
	return replica
}

// Proxy puts a proxy before a node until the test ends. The cluster sends clients there, and replicas that connect
// anew.
func (c *ClusterSet) Proxy(t testing.TB, node *Server) *FaultProxy {
	t.Helper()
	p := Proxy(t, node.Addr)
	c.announce(t, node, p.Addr)
	t.Cleanup(func() {
		if node.Running() {
			c.announce(t, node, node.Addr)
		}
	})
	return p
}

// announce lets a node tell others an address, and waits until all know it.
func (c *ClusterSet) announce(t testing.TB, node *Server, addr string) {
	t.Helper()
	_, port, _ := net.SplitHostPort(addr)
	if err := node.client.ConfigSet(context.Background(), "cluster-announce-port", port).Err(); err != nil {
		t.Fatalf("letting %s announce %s: %v", node.name, addr, err)
	}
	mustAwait(t, "all nodes know the address", func(ctx context.Context) error {
		for _, other := range servers(c.Nodes).awake() {
			m, err := c.read(ctx, other)
			if err != nil {
				return err
			}
			if got := m[c.ids[node]].addr; got != addr {
				return fmt.Errorf("%s knows %s at %s, want %s", other.name, node.name, got, addr)
			}
		}
		return nil
	})
}

// ask reads what the first node sees that can answer.
func (c *ClusterSet) ask(t testing.TB) topology {
	t.Helper()
	m, err := c.read(context.Background(), servers(c.Nodes).awake()[0])
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Close ends all nodes.
func (c *ClusterSet) Close() { servers(c.Nodes).Close() }

// Log returns what all nodes printed.
func (c *ClusterSet) Log() string { return servers(c.Nodes).Log() }
