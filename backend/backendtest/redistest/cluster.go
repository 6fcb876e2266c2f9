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

	"github.com/redis/go-redis/v9"
)

// ClusterSet is a cluster of three primaries with a replica each. Its node timeout is 3 s: a killed primary is replaced
// in about six, or in twelve when its replica has just asked for votes before.
type ClusterSet struct {
	Nodes []*Server // six; the first three are primaries in the beginning, each three before its replica

	ids map[*Server]string // constant
}

// A cluster has so many slots, and one of these sets so many primaries.
const slots, primaries = 16384, 3

// Cluster starts three primaries and three replicas, and waits until they are one cluster.
func Cluster(t testing.TB, options ...Option) *ClusterSet {
	t.Helper()
	return Start(t, "cluster", options...).Cluster
}

func startCluster(dir string, s settings) (*ClusterSet, error) {
	s.cluster = true
	nodes, err := startServers(filepath.Join(dir, "cluster"), "cluster", 2*primaries, s)
	if err != nil {
		return nil, err
	}
	c := &ClusterSet{Nodes: nodes, ids: make(map[*Server]string)}
	if err := c.form(); err != nil {
		err = fmt.Errorf("forming a cluster: %w\n%s", err, servers(nodes).Log())
		servers(nodes).Close()
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

// Await waits until all nodes that are neither killed nor frozen say that the cluster is well, agree on it, and the
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
		v, err := node.view(ctx)
		if err != nil {
			return err
		}
		seen, err := v.summary(awake)
		switch {
		case err != nil:
			return fmt.Errorf("%s sees %w", node.name, err)
		case want == "":
			want = seen
		case seen != want:
			return fmt.Errorf("%s sees\n%s, but %s sees\n%s", awake[0].name, want, node.name, seen)
		}
		if v.owns(node) {
			continue
		}
		if err := node.linked(ctx); err != nil {
			return err
		}
	}
	return nil
}

// view is a cluster as one of its nodes sees it: each range of slots with its owner, and who follows that.
type view []redis.ClusterSlot

// view asks a node for its view.
func (s *Server) view(ctx context.Context) (view, error) {
	slots := redis.NewClusterSlotsCmd(ctx, "cluster", "slots") // Redis 6.2 has no CLUSTER SHARDS
	_ = s.client.Process(ctx, slots)                           // the command has the error too
	v, err := slots.Result()
	if err != nil {
		return nil, fmt.Errorf("asking %s for its cluster: %w", s.name, err)
	}
	slices.SortFunc(v, func(a, b redis.ClusterSlot) int { return a.Start - b.Start })
	return v, nil
}

// owns reports whether a node owns any slots.
func (v view) owns(node *Server) bool {
	return slices.ContainsFunc(v, func(r redis.ClusterSlot) bool { return r.Nodes[0].Addr == node.Addr })
}

// summary returns what all nodes must agree on, and an error if it cannot last.
func (v view) summary(awake servers) (string, error) {
	var text strings.Builder
	owned, unseen := 0, addrs(awake)
	for _, r := range v {
		owned += r.End - r.Start + 1
		owner := r.Nodes[0].Addr
		if !slices.Contains(addrs(awake), owner) {
			return "", fmt.Errorf("that %s still owns slots, and it cannot answer", owner)
		}
		fmt.Fprintf(&text, "%d to %d at %s, replicas", r.Start, r.End, owner)
		for _, addr := range addrs(awake) {
			if slices.ContainsFunc(r.Nodes, func(n redis.ClusterNode) bool { return n.Addr == addr }) {
				fmt.Fprint(&text, " ", addr)
				unseen = slices.DeleteFunc(unseen, func(other string) bool { return other == addr })
			}
		}
		fmt.Fprintln(&text)
	}
	if owned != slots || len(unseen) > 0 {
		return "", fmt.Errorf("%d of %d slots with an owner, and nothing of %v", owned, slots, unseen)
	}
	return text.String(), nil
}

// Primaries returns the nodes that own slots now, in the order of Nodes.
func (c *ClusterSet) Primaries(t testing.TB) []*Server {
	t.Helper()
	v := c.ask(t)
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(s *Server) bool { return !v.owns(s) })
}

// replica returns a node that can answer and follows primary.
func (c *ClusterSet) replica(t testing.TB, primary *Server) *Server {
	t.Helper()
	for _, r := range c.ask(t) {
		for _, node := range servers(c.Nodes).awake() {
			follows := func(n redis.ClusterNode) bool { return n.Addr == node.Addr }
			if r.Nodes[0].Addr == primary.Addr && slices.ContainsFunc(r.Nodes[1:], follows) {
				return node
			}
		}
	}
	t.Fatalf("no node follows %s: it is no primary, or its replica was killed or frozen", primary.name)
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
	for _, r := range c.ask(t) {
		for _, node := range c.Nodes {
			if r.Start <= slot && slot <= r.End && r.Nodes[0].Addr == node.Addr {
				return node
			}
		}
	}
	t.Fatalf("slot %d of key %q has no owner", slot, key)
	return nil
}

// Failover lets primary's replica take over while both are well. It returns the new primary once all nodes know it and
// the old one follows it.
func (c *ClusterSet) Failover(t testing.TB, primary *Server) *Server {
	t.Helper()
	replica := c.replica(t, primary)
	var asked time.Time
	mustAwait(t, "a replica takes over", func(ctx context.Context) error {
		v, err := replica.view(ctx)
		switch {
		case err != nil:
			return err
		case v.owns(replica):
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

// ask returns what the first node sees that can answer.
func (c *ClusterSet) ask(t testing.TB) view {
	t.Helper()
	v, err := servers(c.Nodes).awake()[0].view(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return v
}
