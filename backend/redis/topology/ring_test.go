package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// manyKeys are 30,000 keys.
var manyKeys = sync.OnceValue(func() [][]byte {
	keys := make([][]byte, 30_000)
	for i := range keys {
		keys[i] = keyNumber(i)
	}
	return keys
})

// placement returns which node of a ring has each of many keys.
func placement(t *testing.T, on Topology) []string {
	t.Helper()
	placed := make([]string, len(manyKeys()))
	for i, key := range manyKeys() {
		placed[i] = on.(*ring).nodeOf(key).name
	}
	return placed
}

// nodeNames are addresses as people have them: of one network, of one machine, of a StatefulSet.
var nodeNames = map[string]func(i int) string{
	"addresses": func(i int) string { return fmt.Sprintf("10.0.0.%d:6379", 10+i) },
	"ports":     func(i int) string { return fmt.Sprintf("127.0.0.1:%d", 7000+i) },
	"names":     func(i int) string { return fmt.Sprintf("redis-%d.redis.weir.svc.cluster.local:6379", i) },
	"sockets":   func(i int) string { return fmt.Sprintf("/run/redis/%d.sock", i) },
}

// Neither the order of the list nor how a node is written moves a key: replicas of weir would disagree.
func TestRingSpreadsKeysAndMovesFew(t *testing.T) {
	t.Parallel()
	const most = 10 // nodes
	for kind, name := range nodeNames {
		sizes := []int{most}
		if kind == "addresses" {
			sizes = []int{3, 5, most}
		}
		for _, n := range sizes {
			var list []string
			for i := range n {
				list = append(list, name(i))
			}
			on, _ := openTopology(t, Config{Type: Ring, URL: strings.Join(list, ","), Fixed: true})
			before, counts := placement(t, on), make(map[string]int)
			for _, node := range before {
				counts[node]++
			}
			share := float64(len(before)) / float64(n)
			for _, node := range list {
				if math.Abs(float64(counts[node])/share-1) > 0.15 {
					t.Errorf("%d %s: %s has %d keys, want %.0f give or take 15 %%", n, kind, node, counts[node], share)
				}
			}
			setNodes(t, on, strings.Join(slices.Delete(slices.Clone(list), n/2, n/2+1), ","))
			wantMoved(t, before, placement(t, on), list[n/2], share)

			// It is back in another order, and one more comes.
			slices.Reverse(list)
			if kind != "sockets" {
				list[0] = "redis://:" + secret + "@" + list[0]
			}
			setNodes(t, on, strings.Join(list, ",")+","+name(n))
			wantMoved(t, placement(t, on), before, name(n), float64(len(before))/float64(n+1))
		}
	}
}

// wantMoved wants no keys to have moved but those of one node, of which there are not many more than its share.
func wantMoved(t *testing.T, before, after []string, node string, share float64) {
	t.Helper()
	moved := 0
	for i := range before {
		if before[i] != node && before[i] != after[i] {
			t.Fatalf("with and without %s key %d is on %s and on %s: its count is lost", node, i, before[i], after[i])
		}
		if before[i] != after[i] {
			moved++
		}
	}
	if moved == 0 || float64(moved) > 1.15*share {
		t.Errorf("with and without %s %d keys move, want some and about %.0f at most", node, moved, share)
	}
}

func setNodes(t *testing.T, on Topology, list string) {
	t.Helper()
	if err := on.(*ring).applyList(list); err != nil {
		t.Fatal(err)
	}
}

func TestNodeKeepsItsClientUntilCredentialsChange(t *testing.T) {
	t.Parallel()
	on, _ := openTopology(t, Config{Type: Ring, URL: "redis://:x@127.0.0.1:1", Fixed: true})
	before, _ := on.Owner(nil)
	setNodes(t, on, "redis://:x@127.0.0.1:1")
	if same, err := on.Owner(nil); err != nil || same != before {
		t.Errorf("the same list gives another client, %v", err)
	}
	setNodes(t, on, "redis://:y@127.0.0.1:1")
	after, err := on.Owner(nil)
	if err != nil || after == before {
		t.Fatalf("a new password gives the old client, %v", err)
	}
	if _, password, _ := after.Options().CredentialsProviderContext(context.Background()); password != "y" {
		t.Error("the new client has the old password")
	}
	if Closed(before) {
		t.Error("the old client was closed at once, under what is on its way")
	}
}

// A key that another weir has counted on one node must not begin at zero on another.
func TestRingPlacesKeysLikeGoRedis(t *testing.T) {
	t.Parallel()
	addrs := make(map[string]string)
	for i := range 7 {
		name := fmt.Sprintf("redis-%d:6379", i)
		addrs[name] = name
	}
	list := strings.Join(slices.Collect(maps.Keys(addrs)), ",")
	on, _ := openTopology(t, Config{Type: Ring, URL: list, Fixed: true})
	theirs := goredis.NewRing(&goredis.RingOptions{
		Addrs: addrs, HeartbeatFn: func(context.Context, *goredis.Client) bool { return true },
	})
	defer theirs.Close()
	keys := append(manyKeys(), []byte("weir:h{84}:due"), []byte("no tag"), []byte("{}empty"), []byte("a}b{c"), []byte(""))
	for _, key := range keys {
		client, err := theirs.GetShardClientForKey(string(key))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := on.(*ring).nodeOf(key).name, client.Options().Addr; got != want {
			t.Fatalf("%q is on %s, want %s: its count would be lost", key, got, want)
		}
	}
}

// startRing starts real nodes and opens a ring of them.
func startRing(t *testing.T, loss NodeLoss) (Topology, *process.Output, []*redistest.Server) {
	t.Helper()
	nodes := redistest.Ring(t, 3)
	list := nodes[0].Addr + "," + nodes[1].Addr + "," + nodes[2].Addr
	on, log := openTopology(t, Config{Type: Ring, URL: list, NodeLoss: loss})
	return on, log, nodes
}

// keysOf gives some keys of each node, by address.
func keysOf(t *testing.T, on Topology) map[string][][]byte {
	t.Helper()
	keys := make(map[string][][]byte)
	for i := range 60 {
		client, err := on.Owner(keyNumber(i))
		if err != nil {
			t.Fatal(err)
		}
		keys[client.Options().Addr] = append(keys[client.Options().Addr], keyNumber(i))
	}
	return keys
}

// wantAt wants keys to be owned by the node at addr.
func wantAt(on Topology, keys [][]byte, addr string) error {
	for _, key := range keys {
		client, err := on.Owner(key)
		if err != nil {
			return err
		}
		if got := client.Options().Addr; got != addr {
			return fmt.Errorf("key %s is on %s, want %s", key, got, addr)
		}
	}
	return nil
}

func TestLostNodesKeysAreRemappedMeanwhile(t *testing.T) {
	t.Parallel()
	on, log, nodes := startRing(t, Remap)
	keys := keysOf(t, on)
	for _, n := range nodes {
		key := keys[n.Addr][0]
		if err := errors.Join(set(on, key), isOn(key, n, nodes...)); err != nil {
			t.Fatal(err)
		}
	}
	frozen, killed, well := nodes[0], nodes[1], nodes[2]
	frozen.Freeze() // the kernel accepts what is sent, and nobody answers
	killed.Kill()
	process.Eventually(t, "the keys of lost nodes go to the one that is left", func() error {
		return errors.Join(wantAt(on, keys[frozen.Addr], well.Addr), wantAt(on, keys[killed.Addr], well.Addr))
	})
	if err := wantAt(on, keys[well.Addr], well.Addr); err != nil {
		t.Errorf("the keys of a node that is well: %v", err)
	}
	for _, n := range []*redistest.Server{frozen, killed} {
		if got := strings.Count(log.String(), `level=WARN msg="ring node does not answer" node=`+n.Addr); got != 1 {
			t.Errorf("the loss of %s was logged %d times, want once:\n%s", n.Addr, got, log)
		}
	}

	frozen.Thaw()
	killed.Restart(t)
	process.Eventually(t, "the keys of nodes that are back return", func() error {
		return errors.Join(wantAt(on, keys[frozen.Addr], frozen.Addr), wantAt(on, keys[killed.Addr], killed.Addr))
	})
	if !strings.Contains(log.String(), `level=WARN msg="ring node is back" node=`+killed.Addr) {
		t.Errorf("that %s is back was not logged:\n%s", killed.Addr, log)
	}
	process.Eventually(t, "four losses are counted", func() error {
		if n := on.(*ring).losses.Load(); n < 4 {
			return fmt.Errorf("%d losses, want four or more: keys of two nodes went to another one, and back", n)
		}
		return nil
	})
}

func TestLostNodesKeysArePinned(t *testing.T) {
	t.Parallel()
	on, _, nodes := startRing(t, Pin)
	keys := keysOf(t, on)
	lost := nodes[0]
	lost.Kill()
	process.Eventually(t, "keys of a lost node are refused", func() error {
		_, err := on.Owner(keys[lost.Addr][0])
		if err == nil {
			return errors.New("its client is given, and each check would find out anew")
		}
		if !strings.Contains(err.Error(), lost.Addr) {
			t.Errorf("the error is %q, want it to name %s", err, lost.Addr)
		}
		return nil
	})
	for _, n := range nodes[1:] {
		if err := wantAt(on, keys[n.Addr], n.Addr); err != nil {
			t.Errorf("the keys of a node that is well: %v", err)
		}
	}
	lost.Restart(t)
	process.Eventually(t, "the node has its keys again", func() error { return wantAt(on, keys[lost.Addr], lost.Addr) })
}

func TestOnlyChangedRingNodesAreALoss(t *testing.T) {
	t.Parallel()
	on, _ := openTopology(t, Config{Type: Ring, URL: "127.0.0.1:1,127.0.0.1:2", NodeLoss: Pin})
	for i, list := range []string{"redis://:" + secret + "@127.0.0.1:2\n127.0.0.1:1\n", "127.0.0.1:1,127.0.0.1:3"} {
		if err := on.(*ring).applyList(list); err != nil {
			t.Fatal(err)
		}
		if n := on.(*ring).losses.Load(); n != uint64(i) {
			t.Errorf("%d losses after list %d; want one, by the second: by another order or a password no key moves", n, i+1)
		}
	}
}

func TestRingFollowsItsFile(t *testing.T) {
	t.Parallel()
	nodes := redistest.Ring(t, 4)
	file := writeFile(t, "nodes", fmt.Sprintf("%s\n%s,%s\n", nodes[0].Addr, nodes[1].Addr, nodes[2].Addr))
	on, log := openTopology(t, Config{Type: Ring, URLFile: file})
	before := keysOf(t, on)
	if len(before) != 3 {
		t.Fatalf("keys are on %d nodes, want the 3 of the file", len(before))
	}
	removed, err := on.Owner(before[nodes[0].Addr][0])
	if err != nil {
		t.Fatal(err)
	}

	const bad = "redis://:" + secret
	rewrite(t, file, bad)
	process.Eventually(t, "a bad file is noticed", func() error { return log.Contains("item 1: it is not a URL") })
	rewrite(t, file, "")
	process.Eventually(t, "an empty file is noticed", func() error { return log.Contains("there is no server in it") })
	if now := keysOf(t, on); len(now) != 3 {
		t.Errorf("keys are on %d nodes after a file that cannot be used, want the last 3", len(now))
	}

	rewrite(t, file, fmt.Sprintf("%s,%s,%s", nodes[3].Addr, nodes[2].Addr, nodes[1].Addr))
	process.Eventually(t, "the new node has keys and the removed one has none", func() error {
		if now := keysOf(t, on); len(now[nodes[3].Addr]) == 0 || len(now[nodes[0].Addr]) != 0 {
			return errors.New("the ring is as before")
		}
		return nil
	})
	if err := removed.Ping(context.Background()).Err(); err != nil {
		t.Errorf("what is on its way to a removed node fails: %v", err)
	}
	process.Eventually(t, "the removed node is forgotten", func() error {
		if !Closed(removed) {
			return errors.New("its connections are open")
		}
		return nil
	})
	if n := strings.Count(log.String(), "there is no server in it"); n != 1 {
		t.Errorf("the empty file was logged %d times, want once:\n%s", n, log)
	}
}

// A history that has moved is on nodes that no configuration names yet.
func TestJoinAddsNodesToAFixedRing(t *testing.T) {
	t.Parallel()
	s, err := Connect(Config{Type: Ring, URL: "rediss://ann:secret@10.0.0.1:6379,10.0.0.2:6379", Fixed: true}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	names, err := s.Join("redis://10.0.0.3:6379/2,rediss://bob:own@10.0.0.4:6379,10.0.0.1:6379")
	if want := []string{"10.0.0.1:6379", "10.0.0.3:6379/2", "10.0.0.4:6379"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("nodes join as %q, %v, want %q", names, err, want)
	}
	if all := s.Nodes(); len(all) != 4 {
		t.Errorf("the ring then has %q, want 4 nodes", all)
	}
	for name, want := range map[string]string{"10.0.0.3:6379/2": "ann secret true 2", "10.0.0.4:6379": "bob own true 0"} {
		n := s.ring.byName(name)
		if got := fmt.Sprint(n.user, " ", n.password, " ", n.tls, " ", n.db); got != want {
			t.Errorf("%s is reached with %s, want %s: those of the first node, unless it has its own", name, got, want)
		}
		if _, err := s.Locate(Destination{Node: name}); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Join("10.0.0.5"); err == nil {
		t.Error("a node without a port joins")
	}
	other, err := Connect(Config{URL: "10.0.0.1:6379"}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Join("10.0.0.2:6379"); err == nil {
		t.Error("a server that is no ring is joined")
	}
}
