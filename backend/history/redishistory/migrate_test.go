package redishistory

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
)

// urlOf is the list of nodes that a move is to go to.
func urlOf(nodes ...*redistest.Server) string { return ringOf(nodes...).config.URL }

// client counts hits in many partitions, by batches that it sends again until they are acknowledged, and knows how many.
type client struct {
	s       *Store
	counted map[history.ID]uint64
	seq     [history.Partitions]uint64
}

// countRound counts some hits of some series of each of n partitions, in minutes of the last days.
func (c *client) countRound(t *testing.T, n int) {
	t.Helper()
	by := make(map[history.Partition][]history.Increment)
	for i := range 2 * n {
		id := history.ID{Domain: "shop", Path: fmt.Sprint("p", i)}
		hits := uint64(i + 1)
		by[id.Partition()] = append(by[id.Partition()], history.Increment{ID: id, Minute: start.Unix()/60 - int64(len(c.counted)%4000), Hits: hits})
		c.counted[id] += hits
	}
	for p, increments := range by {
		c.seq[p]++
		b := history.Batch{Writer: "ann", Seq: c.seq[p], After: c.seq[p] - 1, Increments: increments}
		r, err := c.s.Apply(t.Context(), p, b)
		if err != nil || r.Status != history.Applied {
			t.Fatalf("batch %d of partition %d: %+v, %v", b.Seq, p, r, err)
		}
	}
}

// agree compares what a store holds with what was counted.
func (c *client) agree(t *testing.T, s *Store) {
	t.Helper()
	found := historytest.All(t, s)
	for id, want := range c.counted {
		if one := found[id]; one.Lifetime != want || !one.Exact() {
			t.Fatalf("%v has %d hits and is exact: %v, want %d", id, one.Lifetime, one.Exact(), want)
		}
	}
	if len(found) != len(c.counted) {
		t.Fatalf("%d series are found, want %d", len(found), len(c.counted))
	}
}

// move runs a mover, which must come to its end.
func move(t *testing.T, s *Store, c MoveConfig) MoveResult {
	t.Helper()
	r, err := s.Move(t.Context(), c)
	if err != nil {
		t.Fatalf("a move to %s: %v", c.To, err)
	}
	return r
}

// endFences lets the time pass after which a mover that was killed holds nothing any more.
func endFences(t *testing.T, nodes ...*redistest.Server) {
	t.Helper()
	for _, n := range nodes {
		n.Client().Del(t.Context(), moverKey)
		for p := range history.Partitions {
			key := formatKey(history.Partition(p))
			if word := strings.Fields(n.Client().Get(t.Context(), key).Val()); len(word) == 4 && word[1] == "moving" {
				word[3] = "1"
				n.Client().Set(t.Context(), key, strings.Join(word, " "), 0)
			}
		}
	}
}

// onlyAt fails if a node has keys of partitions that are elsewhere, other than tombstones.
func onlyAt(t *testing.T, s *Store, nodes ...*redistest.Server) {
	t.Helper()
	for _, n := range nodes {
		for _, key := range n.Client().Keys(t.Context(), "*{*").Val() {
			var p int
			_, _ = fmt.Sscanf(key, prefix+"{%d}", &p)
			on, err := nodeOf(t, s, history.Partition(p))
			state := n.Client().Get(t.Context(), formatKey(history.Partition(p))).Val()
			switch tombstone := strings.HasPrefix(state, "1 moved "); {
			case err != nil:
				t.Fatal(err)
			case on == n.Addr && state != format, on != n.Addr && (!tombstone || key != formatKey(history.Partition(p))):
				t.Fatalf("node %s has %s, with the state %q, and the partition is on %s", n.Addr, key, state, on)
			}
		}
	}
}

// A mover that is killed at any step of a move leaves a history that is exact, readable and can be written, and the next
// one ends the move; when the killed one goes on after that, as a machine that was paused, it does no harm.
func TestAMoverKilledAtAnyStepLosesNothing(t *testing.T) {
	nodes := redistest.Ring(t, 3)
	var here, bystander, next *Store
	here = opened(t, ringOf(nodes[:2]...), fixed(start), nil)
	c := &client{s: here, counted: make(map[history.ID]uint64)}
	c.countRound(t, 40)
	bystander = opened(t, ringOf(nodes[:2]...), fixed(start), nil) // whose table grows old
	c.agree(t, bystander)
	places := [][]*redistest.Server{nodes, nodes[:2], nodes[1:], {nodes[0], nodes[2]}}
	atSteps := []string{"fenced", "copying", "copy", "compare", "switch", "switched", "table", "remove", "removed"}
	for round, step := range atSteps {
		to, skip := places[round%len(places)], 7*round
		paused, resume, ended := make(chan bool), make(chan bool), make(chan error, 1)
		killed := opened(t, ringOf(nodes...), fixed(start), func(cfg *Config) {
			cfg.Step = func(name string) {
				if skip--; skip < 0 && name == "move: "+step {
					skip = math.MaxInt
					paused <- true
					<-resume
				}
			}
		})
		go func() {
			_, err := killed.Move(context.Background(), MoveConfig{To: urlOf(to...), Machine: "killed"})
			ended <- err
		}()
		select {
		case <-paused:
		case err := <-ended:
			t.Fatalf("a mover never comes to %q: %v", step, err)
		case <-time.After(process.Hang):
			t.Fatal("a mover hangs")
		}
		_, err := here.Move(t.Context(), MoveConfig{To: urlOf(to...)})
		if err == nil || !strings.Contains(err.Error(), "another mover, on killed, is at work") {
			t.Fatalf("beside a mover at %q another ends with %v, want an error that names the first", step, err)
		}
		endFences(t, nodes...)
		c.countRound(t, 40)
		c.agree(t, bystander)
		next = opened(t, ringOf(nodes...), fixed(start), nil)
		move(t, next, MoveConfig{To: urlOf(to...)})
		c.countRound(t, 40)
		close(resume)
		if err := <-ended; err == nil {
			t.Errorf("a mover that was overtaken at %q ends without an error", step)
		}
		c.countRound(t, 40)
		for _, s := range []*Store{here, bystander, next} {
			c.agree(t, s)
		}
		onlyAt(t, next, nodes...)
		historytest.Downsample(t, here, start)
		c.agree(t, bystander)
	}
}
