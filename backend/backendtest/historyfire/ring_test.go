package historyfire

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/backend/redis"
)

// ringFire is a fire on a ring.
type ringFire struct {
	*fire
	nodes     []*redistest.Server
	store     history.Store
	placement string
	partition map[string][]int // those of each node
}

func newRingFire(t *testing.T, n uint64, options ...redistest.Option) *ringFire {
	nodes := redistest.Ring(t, 3, options...)
	r := &ringFire{nodes: nodes}
	r.fire = newFire(t, ringSite(nodes...), n)
	r.store = r.opened()
	r.placement = r.placed(nodes[0])
	var is struct{ Nodes map[string][]int }
	if err := json.Unmarshal([]byte(r.placement), &is); err != nil {
		t.Fatalf("the placement %q: %v", r.placement, err)
	}
	r.partition = is.Nodes
	return r
}

func ringSite(nodes ...*redistest.Server) site {
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.Addr)
	}
	return site{Type: redis.Ring, URL: strings.Join(urls, ",")}
}

// placed is the placement that a node has stored.
func (r *ringFire) placed(node *redistest.Server) string {
	content, err := node.Client().Get(context.Background(), redishistory.Prefix+":placement").Result()
	if err != nil {
		r.t.Errorf("node %s has no placement: %v", node.Addr, err)
	}
	return content
}

// awhile kills a node, checks that nothing is done in its place, and starts it again.
func (r *ringFire) awhile(node *redistest.Server, what string) {
	node.Kill()
	others := slices.DeleteFunc(slices.Clone(r.nodes), func(n *redistest.Server) bool { return n == node })
	r.refuses(ringSite(others...), others[0], "node "+node.Addr+" is missing")
	r.refuses(r.site, node, node.Addr)
	node.Restart(r.t)
	r.count(what)
}

// answers waits until the tests' own store has noticed that all nodes are back.
func (r *ringFire) answers() {
	var err error
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(20 * time.Millisecond) {
		if err = r.store.Query(context.Background(), everything(), func(history.Series) error { return nil }); err == nil {
			return
		}
	}
	r.t.Errorf("a minute after all nodes of the ring are back: %v", err)
}

// refuses wants an error from a ring for a partition of a node.
func (r *ringFire) refuses(where site, node *redistest.Server, want string) {
	store, err := where.open(r.board, func(string) {})
	if err != nil {
		r.t.Error(err)
		return
	}
	defer store.Close()
	p := history.Partition(r.partition[node.Addr][0])
	at, err := store.Apply(context.Background(), p, history.Batch{Writer: "anyone"})
	if err == nil || !strings.Contains(err.Error(), want) {
		r.t.Errorf("with a node of the ring away partition %d answers %+v, %v; want an error that says %q: elsewhere it would be "+
			"split in two", p, at, err, want)
	}
}

// unmoved wants all nodes to have the placement of the beginning, and no key of a partition that is another's.
func (r *ringFire) unmoved() (keys int) {
	ctx := context.Background()
	for _, node := range r.nodes {
		if is := r.placed(node); is != r.placement {
			r.t.Errorf("node %s now has the placement %s, want that of the beginning, %s", node.Addr, is, r.placement)
		}
		own := make(map[string]bool)
		for _, p := range r.partition[node.Addr] {
			own[fmt.Sprintf("%s{%d}", redishistory.Prefix, p)] = true
		}
		all := node.Client().Scan(ctx, 0, redishistory.Prefix+"{*", 1000).Iterator()
		for all.Next(ctx) {
			keys++
			if tag, _, _ := strings.Cut(all.Val(), "}"); !own[tag+"}"] {
				r.t.Errorf("node %s has the key %s, whose partition was placed on another", node.Addr, all.Val())
			}
		}
		if err := all.Err(); err != nil {
			r.t.Error(err)
		}
	}
	return keys
}

// TestARingWhoseNodesAreKilledHoldsEachHitOnce kills writers, jobs and nodes, which come back with their files.
func TestARingWhoseNodesAreKilledHoldsEachHitOnce(t *testing.T) {
	t.Parallel()
	r := newRingFire(t, 15, redistest.WithConfig("appendonly yes", "appendfsync always"))
	nodeKills, rounds := 3+*kills/200, roundsOf(3)
	for range rounds {
		r.burn(round{survivors: 2, writerKills: *kills * 4 / 100 / rounds, jobKills: *kills * 6 / 100 / rounds, store: r.store,
			disturb: func() {
				for range nodeKills {
					r.awaitSteps(int64(100 + r.chance(200)))
					r.awhile(r.nodes[r.chance(len(r.nodes))], "node, restarted with its file")
				}
				r.answers()
			}})
	}
	r.finish(r.store)
	t.Logf("%d keys, each on the node that its partition was placed on", r.unmoved())
}

// TestWhatARingsEmptyNodeHasLostIsCounted kills nodes that come back with nothing. Writers that live send again what
// they keep, here for much less than a minute, and count the rest. Of those that have ended nobody counts.
func TestWhatARingsEmptyNodeHasLostIsCounted(t *testing.T) {
	t.Parallel()
	r := newRingFire(t, 16)
	r.kept = 500 * time.Millisecond
	rounds := roundsOf(3)
	for range rounds {
		r.burn(round{survivors: 2, writerKills: *kills * 2 / 100 / rounds, jobKills: *kills * 3 / 100 / rounds, store: r.store,
			disturb: func() {
				for range 2 + *kills/500 {
					r.awaitSteps(int64(300 + r.chance(200)))
					time.Sleep(r.kept) // so that some batches are not kept any more
					node := r.nodes[r.chance(len(r.nodes))]
					r.awhile(node, "node, empty after its restart")
					r.empty(node)
				}
				r.awaitSteps(100)
				r.answers()
			}})
	}
	r.finish(r.store)
	t.Logf("of what nodes lost, living writers counted %d hits and sent %d batches again; %d hits were of writers that had ended",
		r.lost, r.resent, r.uncounted)
	if r.lost == 0 || r.resent == 0 {
		t.Error("no hit was counted as lost or no batch was sent again: this test has shown nothing")
	}
	if s, err := r.site.open(r.board, func(string) {}); err != nil {
		t.Error(err)
	} else {
		if err := s.(*redishistory.Store).Check(t.Context()); err != nil { // gives a node that lost it its placement
			t.Error(err)
		}
		s.Close()
	}
	r.unmoved()
}

// empty notes that a node has lost all that it had.
func (r *ringFire) empty(node *redistest.Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.partition[node.Addr] {
		r.emptied[history.Partition(p)] = true
	}
	for n := range seriesCount {
		if !r.emptied[seriesOf(n).Partition()] {
			continue
		}
		if n == full && r.landed[n] >= r.filled {
			r.landed[n], r.filled = r.landed[n]-r.filled, 0
		}
		r.uncounted += r.landed[n]
		r.landed[n] = 0
	}
}
