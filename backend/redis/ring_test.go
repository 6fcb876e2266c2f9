package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

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

func TestKeysSpreadOverARingAndMoveNoMoreThanTheyMust(t *testing.T) {
	t.Parallel()
	for kind, name := range nodeNames {
		for n := 3; n <= 10; n++ {
			if kind != "addresses" && n < 10 {
				continue
			}
			var list []string
			for i := range n {
				list = append(list, name(i))
			}
			on, _ := openTopology(t, Config{Type: Ring, URL: strings.Join(list, ","), Fixed: true})
			before := placement(t, on)
			wantSpread(t, fmt.Sprint(n, " ", kind), before, n)

			gone := list[n/2]
			setNodes(t, on, strings.ReplaceAll(strings.Join(list, ","), gone, ""))
			for i, now := range placement(t, on) {
				if before[i] != gone && before[i] != now {
					t.Fatalf("%d %s: when %s left, key %d of %s moved to %s: its count is lost", n, kind, gone, i, before[i], now)
				}
			}

			// It is back as the last one of another order, and one more comes.
			setNodes(t, on, strings.Join(list, ",")+","+name(n))
			moved := 0
			for i, now := range placement(t, on) {
				if now == before[i] {
					continue
				}
				moved++
				if now != name(n) {
					t.Fatalf("%d %s: when %s came, key %d of %s moved to %s, not to it", n, kind, name(n), i, before[i], now)
				}
			}
			if most := int(1.3 * float64(len(before)) / float64(n+1)); moved > most || moved == 0 {
				t.Errorf("%d %s: when one came, %d of %d keys moved, want at most %d", n, kind, moved, len(before), most)
			}
		}
	}
}

// wantSpread wants each of n nodes to have its share of the keys, give or take 15 %.
func wantSpread(t *testing.T, what string, placed []string, n int) {
	t.Helper()
	counts := make(map[string]int)
	for _, name := range placed {
		counts[name]++
	}
	share := float64(len(placed)) / float64(n)
	for name, count := range counts {
		if math.Abs(float64(count)/share-1) > 0.15 {
			t.Errorf("%s: %s has %d keys, want %.0f give or take 15 %%", what, name, count, share)
		}
	}
	if len(counts) != n {
		t.Errorf("%s: only %d nodes have keys", what, len(counts))
	}
}

func setNodes(t *testing.T, on Topology, list string) {
	t.Helper()
	if err := on.(*ring).apply(list); err != nil {
		t.Fatal(err)
	}
}

func TestTheOrderOfARingDoesNotMatter(t *testing.T) {
	t.Parallel()
	one, _ := openTopology(t, Config{Type: Ring, URL: "a:1,b:1,c:1", Fixed: true})
	other, _ := openTopology(t, Config{Type: Ring, URL: "rediss://c:1,redis://:" + secret + "@a:1,b:1", Fixed: true})
	want := placement(t, one)
	for i, got := range placement(t, other) {
		if got != want[i] {
			t.Fatalf("key %d is on %s, or %s in another order of the list: replicas of weir would disagree", i, got, want[i])
		}
	}
}

func TestANodeKeepsItsClientUntilItsCredentialsChange(t *testing.T) {
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
	if isClosed(before) {
		t.Error("the old client was closed at once, under what is on its way")
	}
}

// A key that another weir has counted on one node must not begin at zero on another.
func TestKeysAreWhereTheRingOfGoRedisPlacesThem(t *testing.T) {
	t.Parallel()
	addrs := make(map[string]string)
	var list []string
	for i := range 7 {
		name := fmt.Sprintf("redis-%d:6379", i)
		addrs[name] = name
		list = append(list, name)
	}
	on, _ := openTopology(t, Config{Type: Ring, URL: strings.Join(list, ","), Fixed: true})
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
func startRing(t *testing.T, loss NodeLoss) (Topology, *redistest.Log, []*redistest.Server) {
	t.Helper()
	nodes := redistest.Ring(t, 3)
	var list []string
	for _, n := range nodes {
		list = append(list, n.Addr)
	}
	on, log := openTopology(t, Config{Type: Ring, URL: strings.Join(list, ","), NodeLoss: loss})
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

func TestKeysAreOnTheirNodesOnly(t *testing.T) {
	t.Parallel()
	on, _, nodes := startRing(t, Remap)
	for addr, keys := range keysOf(t, on) {
		for _, key := range keys {
			if err := set(on, key); err != nil {
				t.Fatal(err)
			}
			for _, n := range nodes {
				if n.Addr != addr {
					continue
				}
				if err := isOn(key, n, nodes...); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestALostNodesKeysAreRemappedUntilItIsBack(t *testing.T) {
	t.Parallel()
	on, log, nodes := startRing(t, Remap)
	keys := keysOf(t, on)
	frozen, killed, well := nodes[0], nodes[1], nodes[2]
	frozen.Stop() // the kernel accepts what is sent, and nobody answers
	killed.Kill()
	took := redistest.Eventually(t, "the keys of lost nodes go to the one that is left", func() error {
		return errors.Join(wantAt(on, keys[frozen.Addr], well.Addr), wantAt(on, keys[killed.Addr], well.Addr))
	})
	t.Logf("%v until the loss of two nodes was noticed", took)
	if err := wantAt(on, keys[well.Addr], well.Addr); err != nil {
		t.Errorf("the keys of a node that is well: %v", err)
	}
	for _, n := range []*redistest.Server{frozen, killed} {
		if got := strings.Count(log.String(), `"ring node does not answer" node=`+n.Addr); got != 1 {
			t.Errorf("the loss of %s was logged %d times, want once:\n%s", n.Addr, got, log)
		}
	}

	frozen.Cont()
	killed.Restart(t)
	took = redistest.Eventually(t, "the keys of nodes that are back return", func() error {
		return errors.Join(wantAt(on, keys[frozen.Addr], frozen.Addr), wantAt(on, keys[killed.Addr], killed.Addr))
	})
	t.Logf("%v until they were back", took)
	if !strings.Contains(log.String(), `"ring node is back" node=`+killed.Addr) {
		t.Errorf("that %s is back was not logged:\n%s", killed.Addr, log)
	}
}

func TestALostNodesKeysArePinned(t *testing.T) {
	t.Parallel()
	on, _, nodes := startRing(t, Pin)
	keys := keysOf(t, on)
	lost := nodes[0]
	lost.Kill()
	redistest.Eventually(t, "keys of a lost node are refused", func() error {
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
	redistest.Eventually(t, "the node has its keys again", func() error { return wantAt(on, keys[lost.Addr], lost.Addr) })
}

func TestARingWithoutNodesSaysSo(t *testing.T) {
	t.Parallel()
	on, _ := openTopology(t, Config{Type: Ring, URL: "127.0.0.1:1"})
	redistest.Eventually(t, "the only node is lost", func() error {
		if _, err := on.Owner(keyNumber(1)); !errors.Is(err, errNoNode) {
			return fmt.Errorf("%v, want %w", err, errNoNode)
		}
		return nil
	})
}

func TestARingFollowsItsFile(t *testing.T) {
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
	redistest.Eventually(t, "a bad file is noticed", func() error { return log.Contains("item 1: it is not a URL") })
	rewrite(t, file, "")
	redistest.Eventually(t, "an empty file is noticed", func() error { return log.Contains("there is no server in it") })
	if now := keysOf(t, on); len(now) != 3 {
		t.Errorf("keys are on %d nodes after a file that cannot be used, want the last 3", len(now))
	}

	rewrite(t, file, fmt.Sprintf("%s,%s,%s", nodes[3].Addr, nodes[2].Addr, nodes[1].Addr))
	redistest.Eventually(t, "the new node has keys and the removed one has none", func() error {
		if now := keysOf(t, on); len(now[nodes[3].Addr]) == 0 || len(now[nodes[0].Addr]) != 0 {
			return errors.New("the ring is as before")
		}
		return nil
	})
	if err := removed.Ping(context.Background()).Err(); err != nil {
		t.Errorf("what is on its way to a removed node fails: %v", err)
	}
	redistest.Eventually(t, "the removed node is forgotten", func() error {
		if !isClosed(removed) {
			return errors.New("its connections are open")
		}
		return nil
	})
	if n := strings.Count(log.String(), "there is no server in it"); n != 1 {
		t.Errorf("the empty file was logged %d times, want once:\n%s", n, log)
	}
}
