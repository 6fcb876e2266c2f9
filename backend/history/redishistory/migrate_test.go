package redishistory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// urlOf is the list of nodes that a move is to go to.
func urlOf(nodes ...*redistest.Server) string { return ringOf(nodes...).config.URL }

// client counts hits in many partitions, by batches that it sends again until they are acknowledged, and knows how
// many.
type client struct {
	s       *Store
	counted map[history.ID]uint64
	seq     [history.Partitions]uint64
	name    string
	now     func() time.Time
}

// countRound counts some hits of some series of each of n partitions, in minutes of the last days.
func (c *client) countRound(t *testing.T, n int) {
	t.Helper()
	by := make(map[history.Partition][]history.Increment)
	minute := start.Unix() / 60
	if c.now != nil {
		minute = c.now().Unix() / 60
	}
	for i := range 2 * n {
		id := history.ID{Domain: "shop", Path: fmt.Sprint("p", i)}
		hits := uint64(i + 1)
		by[id.Partition()] = append(by[id.Partition()], history.Increment{ID: id, Minute: minute - int64(i), Hits: hits})
		c.counted[id] += hits
	}
	for p, increments := range by {
		c.seq[p]++
		b := history.Batch{Writer: cmp.Or(c.name, "ann"), Seq: c.seq[p], After: c.seq[p] - 1, Increments: increments}
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

// statesOf are the states of all partitions at a node.
func statesOf(t *testing.T, n *redistest.Server) (states [history.Partitions]string) {
	t.Helper()
	var keys []string
	for p := range history.Partitions {
		keys = append(keys, formatKey(history.Partition(p)))
	}
	held, err := n.Client().MGet(t.Context(), keys...).Result()
	if err != nil {
		t.Fatal(err)
	}
	for p, state := range held {
		states[p], _ = state.(string)
	}
	return states
}

// onceAt returns a Step that calls do once, when a mover comes to a step of a partition that has series: these are
// copied after the keys that all partitions may have. Steps before the copy are those of the partition after it.
func onceAt(step string, do func()) func(name string) {
	copies, last, done := 0, "", false
	return func(name string) {
		if name == "move: copy" && last != name {
			copies = 0
		}
		if last = name; name == "move: copy" {
			copies++
		}
		if name == "move: "+step && copies > 1 && !done {
			done = true
			do()
		}
	}
}

// endLocks lets the time pass after which a mover that was killed holds nothing any more.
func endLocks(t *testing.T, nodes ...*redistest.Server) {
	t.Helper()
	for _, n := range nodes {
		n.Client().Del(t.Context(), moverKey)
	}
}

// onlyAt fails if a node has keys of partitions that are elsewhere, other than tombstones.
func onlyAt(t *testing.T, s *Store, nodes ...*redistest.Server) {
	t.Helper()
	for _, n := range nodes {
		states := statesOf(t, n)
		for _, key := range n.Client().Keys(t.Context(), "*{*").Val() {
			var p int
			_, _ = fmt.Sscanf(key, prefix+"{%d}", &p)
			on, err := nodeOf(t, s, history.Partition(p))
			state := states[p]
			switch tombstone := strings.HasPrefix(state, "1 moved "); {
			case err != nil:
				t.Fatal(err)
			case on == n.Addr && state != format, on != n.Addr && (!tombstone || key != formatKey(history.Partition(p))):
				t.Fatalf("node %s has %s, with the state %q, and the partition is on %s", n.Addr, key, state, on)
			}
		}
	}
}

// A mover that is killed at any step of a move leaves a history that is exact, readable and can be written, and the
// next one ends the move; when the killed one goes on after that, as a machine that was paused, it does no harm.
func TestKilledMoverLosesNothing(t *testing.T) {
	nodes := shared(t, topology.Ring).Servers
	var here, bystander, next *Store
	here = opened(t, ringOf(nodes[:2]...), fixed(start), nil)
	c := &client{s: here, counted: make(map[history.ID]uint64)}
	c.countRound(t, 20)
	bystander = opened(t, ringOf(nodes[:2]...), fixed(start), nil)
	bystander.stop() // so that its table grows old
	c.agree(t, bystander)
	places := [][]*redistest.Server{nodes, nodes[:2], nodes[1:], {nodes[0], nodes[2]}}
	atSteps := []string{"fenced", "copying", "copy", "switch", "switched", "table", "remove", "removed"}
	for round, step := range atSteps {
		if process.Raced() && round%2 == 1 {
			continue
		}
		to := places[round%len(places)]
		paused, resume, ended := make(chan bool), make(chan bool), make(chan error, 1)
		killed := opened(t, ringOf(nodes...), fixed(start), func(cfg *Config) {
			cfg.Step = onceAt(step, func() {
				paused <- true
				<-resume
			})
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
		if err == nil || !strings.HasPrefix(err.Error(), "another move runs from host killed, or was killed less than 30 s ago (lock at ") {
			t.Fatalf("beside a mover at %q another ends with %v, want an error that names the first", step, err)
		}
		if endLocks(t, nodes...); round%2 == 0 { // else the next one meets the fence
			c.countRound(t, 20)
		}
		c.agree(t, bystander)
		next = opened(t, ringOf(nodes...), fixed(start), nil)
		move(t, next, MoveConfig{To: urlOf(to...)})
		c.countRound(t, 20)
		close(resume)
		if err := <-ended; err == nil {
			t.Errorf("a mover that was overtaken at %q ends without an error", step)
		}
		c.countRound(t, 20)
		onlyAt(t, next, nodes...)
		historytest.Downsample(t, here, start)
		for _, s := range []*Store{bystander, next} {
			c.agree(t, s)
		}
	}
}

// Three nodes become five and then two, and back, while a client counts, jobs downsample and queries run: each answer
// is of a moment, and in the end each hit is there once.
func TestRingMovesUnderLoad(t *testing.T) {
	nodes := redistest.Ring(t, 5)
	var clock atomic.Int64
	clock.Store(start.Unix())
	now := func() time.Time { return time.Unix(clock.Load(), 0) }
	c := &client{s: opened(t, ringOf(nodes[:3]...), now, nil), counted: make(map[history.ID]uint64), now: now}
	reader := opened(t, ringOf(nodes[:3]...), now, func(cfg *Config) { cfg.ReadOnly = true })
	job := opened(t, ringOf(nodes[:3]...), now, nil)
	c.countRound(t, 40)
	wake, moves := moveThrough(t, now, nodes)
	var running sync.WaitGroup
	queries := 0
	running.Go(func() {
		lifetimes := make(map[history.ID]uint64)
		for range wake[0] {
			found := 0
			err := reader.Query(context.Background(), historytest.Everything(), func(one history.Series) error {
				if found++; !one.Exact() || one.Lifetime < lifetimes[one.ID] || one.Err != nil {
					t.Errorf("a query finds %v with %d hits, exact: %v (%v), after %d", one.ID, one.Lifetime, one.Exact(), one.Err, lifetimes[one.ID])
				}
				lifetimes[one.ID] = one.Lifetime
				return nil
			})
			if queries++; err != nil || found != 80 {
				t.Errorf("a query finds %d series, want 80: %v", found, err)
			}
		}
	})
	running.Go(func() {
		for range wake[1] {
			if _, err := job.Downsample(context.Background(), now()); err != nil {
				t.Errorf("the job: %v", err)
			}
			clock.Add(6 * 3600)
		}
	})
	for range wake[2] {
		c.countRound(t, 40)
	}
	if err := <-moves; err != nil {
		t.Error(err)
	}
	running.Wait()
	for _, s := range []*Store{c.s, reader, opened(t, ringOf(nodes[2]), now, nil)} {
		c.agree(t, s)
	}
	onlyAt(t, c.s, nodes...)
	t.Logf("%d batches to the busiest partition, %d queries", slices.Max(c.seq[:]), queries)
}

// moveThrough moves a history from the first three of five nodes to all, then to the last two, and to three again. The
// channels have something whenever some more partitions have moved, so that a fast machine does no more beside them
// than a slow one, and are closed at the end.
func moveThrough(t *testing.T, now func() time.Time, nodes []*redistest.Server) (wake [3]chan bool, ended chan error) {
	ended = make(chan error, 1)
	for i := range wake {
		wake[i] = make(chan bool, 1)
	}
	moved := 0
	mover := opened(t, ringOf(nodes[:3]...), now, nil)
	mover.OnVisit = func() {
		for i := 0; i < len(wake) && moved%16 == 0; i++ {
			select {
			case wake[i] <- true:
			default:
			}
		}
		moved++
	}
	targets := [][]*redistest.Server{nodes, nodes[3:], nodes[1:4]}
	switch {
	case process.Raced():
		targets = targets[:2]
	case !testing.Short():
		targets = slices.Repeat(targets, 3)
	}
	go func() {
		var err error
		for i := 0; i < len(targets) && err == nil; i++ {
			_, err = mover.Move(context.Background(), MoveConfig{To: urlOf(targets[i]...)})
		}
		ended <- err
		for _, one := range wake {
			close(one)
		}
	}()
	return wake, ended
}

// A batch that is sent again after its partition has moved is known there.
func TestBatchCountsOnceAcrossAMove(t *testing.T) {
	nodes := shared(t, topology.Ring).Servers[:2]
	w := newWriter(opened(t, ringOf(nodes[0]), fixed(start), nil), 3)
	w.stop() // it is not to look for the table by itself
	batch := w.next(start.Unix() / 60)
	apply(t, w.Store, w.p, batch)
	if err := w.StoreDenials(t.Context(), []Denial{{start, "ann"}}, start); err != nil {
		t.Fatal(err)
	}
	mover := opened(t, ringOf(nodes[0]), fixed(start), nil)
	if r := move(t, mover, MoveConfig{To: urlOf(nodes[1])}); len(r.Partitions) != history.Partitions || r.Version != history.Partitions+2 {
		t.Errorf("a move of all says version %d and %d partitions", r.Version, len(r.Partitions))
	}
	if all, err := w.Denials(t.Context(), start); err != nil || len(all) != 1 {
		t.Errorf("after a move of all there are the denials %q, %v, want the one that was stored", all, err)
	}
	for name, s := range map[string]*Store{"a store of before": w.Store, "one that names the new node": opened(t, ringOf(nodes[1]), fixed(start), nil)} {
		r, err := s.Apply(t.Context(), w.p, batch)
		if err != nil || r.Status != history.Duplicate {
			t.Errorf("%s answers a batch of before the move with %+v, %v, want that it is known", name, r, err)
		}
	}
}

// Writers take away the fence of a mover that has died, and that one cannot switch any more: what they count would be
// lost.
func TestExpiredFenceSwitchesNothing(t *testing.T) {
	nodes := shared(t, topology.Ring).Servers[:2]
	w := newWriter(opened(t, ringOf(nodes[0]), fixed(start), nil), 3)
	w.count(t, 0)
	last := false
	killed := opened(t, ringOf(nodes[0]), fixed(start), func(c *Config) {
		c.Step = func(name string) {
			if name == "move: switch" && !last && nodes[1].Client().Exists(t.Context(), dueKey(w.p)).Val() == 1 {
				last = true
				endLocks(t, nodes[0])
				w.count(t, 0)
			}
		}
	})
	_, err := killed.Move(t.Context(), MoveConfig{To: urlOf(nodes[1])})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("partition %d was not switched", w.p)) {
		t.Errorf("a mover whose fence has ended before the switch ends with %v, want that nothing was switched", err)
	}
	if state := nodes[0].Client().Get(t.Context(), formatKey(w.p)).Val(); state != format {
		t.Errorf("after a batch the node has the state %q, want no fence", state)
	}
	for id, one := range historytest.All(t, w.Store) {
		if one.Lifetime != 3 {
			t.Errorf("%v has %d hits, want those of both batches", id, one.Lifetime)
		}
	}
}

// The partitions of a node that is gone for good begin anew; all others keep what they have.
func TestLostNodeLosesOnlyItsPartitions(t *testing.T) {
	nodes := redistest.Ring(t, 3)
	s := opened(t, ringOf(nodes...), fixed(start), impatient)
	c := &client{s: s, counted: make(map[history.ID]uint64)}
	c.countRound(t, 40)
	lost := make(map[history.Partition]bool)
	for p := range history.Partitions {
		node, _ := nodeOf(t, s, history.Partition(p))
		lost[history.Partition(p)] = node == nodes[1].Addr
	}
	to := urlOf(nodes[0], nodes[2])
	if _, err := s.Move(t.Context(), MoveConfig{To: to, Lost: []string{nodes[1].Addr}}); err == nil || !strings.Contains(err.Error(), "is not lost, it answers") {
		t.Fatalf("of a node that answers a move as if it was lost ends with %v: hits would be lost for nothing", err)
	}
	nodes[1].Kill()
	if _, err := s.Move(t.Context(), MoveConfig{To: to}); err == nil || !strings.HasSuffix(err.Error(), "say --lost "+nodes[1].Addr) ||
		!strings.Contains(err.Error(), "connection refused: is it up") {
		t.Fatalf("with a node away a move ends with %v, want that it names the cause, and then --lost", err)
	}
	if _, err := s.Move(t.Context(), MoveConfig{To: to + ",127.0.0.1:1", DryRun: true}); err == nil || strings.Contains(err.Error(), "--lost 127.0.0.1:1") {
		t.Fatalf("a dry run with a wrong name ends with %v, want an error, and no advice to call that node lost", err)
	}
	lose := MoveConfig{To: to, Lost: []string{nodes[1].Addr}}
	r := move(t, opened(t, ringOf(nodes...), fixed(start), impatient), lose)
	for _, one := range r.Partitions {
		if !one.Lost || !lost[one.Partition] || !one.Moved {
			t.Errorf("partition %d of a ring that only loses a node: %+v", one.Partition, one)
		}
	}
	for id := range c.counted {
		if lost[id.Partition()] {
			delete(c.counted, id)
		}
	}
	process.Eventually(t, "a store of before finds the new table", func() error {
		return s.Query(t.Context(), historytest.Everything(), func(one history.Series) error { return one.Err })
	})
	c.agree(t, s)
	c.seq = [history.Partitions]uint64{}
	c.name = "bob"
	c.countRound(t, 40)
	c.agree(t, s)
	if again := move(t, opened(t, ringOf(nodes...), fixed(start), impatient), lose); len(again.Partitions) > 0 {
		t.Errorf("the same command again moves %+v", again)
	}
	nodes[1].Restart(t) // a node that comes back is to bring nothing of before
	for p := range lost {
		nodes[1].Client().Set(t.Context(), formatKey(p), format, 0)
	}
	back := MoveConfig{To: urlOf(nodes...), DryRun: true}
	if _, err := s.Move(t.Context(), back); err == nil || !strings.Contains(err.Error(), "is at "+nodes[1].Addr+" already") {
		t.Errorf("a dry run to a lost node that came back with its data ends with %v", err)
	}
}

// A node that was restarted empty is there, and no reader's error: a move to where all is begins it anew.
func TestMoveBeginsAnEmptyNodeAnew(t *testing.T) {
	nodes := shared(t, topology.Ring).Servers[:2]
	s := opened(t, ringOf(nodes...), fixed(start), nil)
	s.stop() // it is not to mend the node
	c := &client{s: s, counted: make(map[history.ID]uint64)}
	c.countRound(t, 20)
	for id := range c.counted {
		if at, _ := nodeOf(t, s, id.Partition()); at == nodes[1].Addr {
			delete(c.counted, id)
		}
	}
	nodes[1].Client().FlushAll(t.Context())
	reader := opened(t, ringOf(nodes...), fixed(start), func(c *Config) { c.ReadOnly = true })
	err := reader.Query(t.Context(), historytest.Everything(), func(one history.Series) error { return one.Err })
	if err == nil || !strings.Contains(err.Error(), "weir history move --to with all nodes of the ring") {
		t.Errorf("with an empty node a reader ends with %v, want what to do", err)
	}
	lose := MoveConfig{To: nodes[0].Addr, Lost: []string{nodes[1].Addr}}
	for _, dry := range []bool{true, false} {
		mover := opened(t, ringOf(nodes...), fixed(start), func(c *Config) { c.Moves, c.ReadOnly = true, dry })
		lose.DryRun = dry
		if _, err := mover.Move(t.Context(), lose); err == nil || !strings.Contains(err.Error(), "is not lost, it answers") {
			t.Errorf("with an empty node called lost a move, dry: %v, ends with %v", dry, err)
		}
		if held := nodes[1].Client().DBSize(t.Context()).Val(); dry && held != 0 {
			t.Errorf("a dry run leaves %d keys on an empty node", held)
		}
		if r := move(t, mover, MoveConfig{To: urlOf(nodes...), DryRun: dry}); len(r.Partitions) > 0 {
			t.Errorf("a move to where all is, dry: %v, does %+v", dry, r)
		}
	}
	c.agree(t, reader)
}

// A server of the ring by another name seems to hold another history: whoever emptied it, as he was told, lost this
// one.
func TestAliasOfANodeIsRefused(t *testing.T) {
	nodes := shared(t, topology.Ring).Servers
	s := opened(t, ringOf(nodes[:2]...), fixed(start), nil)
	c := &client{s: s, counted: make(map[history.ID]uint64)}
	c.countRound(t, 20)
	alias := func(n *redistest.Server) string { return strings.Replace(n.Addr, "127.0.0.1", "localhost", 1) }
	for _, to := range []string{alias(nodes[0]) + "," + nodes[1].Addr, urlOf(nodes...) + "," + alias(nodes[2])} {
		for _, dry := range []bool{true, false} {
			_, err := s.Move(t.Context(), MoveConfig{To: to, DryRun: dry})
			if err == nil || !strings.HasPrefix(err.Error(), "localhost:") || !strings.HasSuffix(err.Error(), " are the same server: name it once, as the ring does") {
				t.Errorf("a move to %s, dry: %v, ends with %v, want that two names are one server", to, dry, err)
			}
		}
	}
	if keys := nodes[2].Client().DBSize(t.Context()).Val(); keys != 0 {
		t.Errorf("what was refused left %d keys on the new node", keys)
	}
	other := "redis://" + nodes[0].Addr + "/1"
	if r := move(t, s, MoveConfig{To: urlOf(nodes[1]) + "," + other}); len(r.Partitions) == 0 {
		t.Error("nothing moved to another database of a server")
	}
	c.agree(t, s)
}

// A table of before this version, which is a list of names, is the ring as it was; and nothing moves in it.
func TestAddedNodeTakesItsShareOnly(t *testing.T) {
	nodes := shared(t, topology.Ring).Servers
	s := opened(t, ringOf(nodes[:2]...), fixed(start), nil)
	c := &client{s: s, counted: make(map[history.ID]uint64)}
	c.countRound(t, 100)
	dry := opened(t, ringOf(nodes[:2]...), fixed(start), func(c *Config) { c.ReadOnly = true })
	plan := move(t, dry, MoveConfig{To: urlOf(nodes...), DryRun: true})
	done := move(t, s, MoveConfig{To: urlOf(nodes...)})
	series, bytes := uint64(0), [2]uint64{}
	for i, one := range done.Partitions {
		expected := plan.Partitions[i]
		if one.To != nodes[2].Addr || expected.Partition != one.Partition || expected.To != one.To || expected.Series != one.Series {
			t.Errorf("planned was %+v, and done %+v, want it to go to the node that came", expected, one)
		}
		series += one.Series
		bytes[0] += expected.Bytes
		bytes[1] += one.Bytes
	}
	if n := len(done.Partitions); n < 55 || n > 115 || series < 30 || bytes[0] == 0 || bytes[1] < bytes[0] {
		t.Errorf("of two nodes' 256 partitions %d have moved to the third, with %d series and %d bytes of which %d were planned", n, series, bytes[1], bytes[0])
	}
	c.agree(t, s)
	if again := move(t, s, MoveConfig{To: urlOf(nodes...)}); len(again.Partitions) > 0 || again.Version != done.Version {
		t.Errorf("the same move again does %+v", again)
	}
}

// A weir that neither writes nor reads tells how far a move is, also of one that was stopped, and where the partitions
// are.
func TestPlacementTellsOfAMove(t *testing.T) {
	nodes := shared(t, topology.Ring).Servers
	w := newWriter(opened(t, ringOf(nodes[:2]...), fixed(start), nil), 3)
	w.count(t, 0)
	want := func(when string, s *Store, left int, bytes, followed bool, at map[string]int) {
		t.Helper()
		s.refreshTable(t.Context())
		p := s.Placement()
		if p.Left != left || (p.MovedBytes > 0) != bytes || (p.Followed > 0) != followed || at != nil && !maps.Equal(p.Nodes, at) {
			t.Errorf("%s the placement is %+v, want %d partitions left, bytes: %v, followed: %v, and %v", when, p, left, bytes, followed, at)
		}
	}
	reader := opened(t, ringOf(nodes[:2]...), fixed(start), nil)
	want("before anything was asked", reader, 0, false, false, map[string]int{})
	stale := opened(t, ringOf(nodes[:2]...), fixed(start), func(c *Config) { c.ReadOnly = true }) // which never looks by itself
	historytest.All(t, stale)
	historytest.All(t, reader)
	plan := move(t, reader, MoveConfig{To: nodes[2].Addr, DryRun: true})
	from := make(map[string]int)
	for _, one := range plan.Partitions {
		from[one.From]++
	}
	want("before a move", reader, 0, false, false, from)
	ctx, stop := context.WithCancel(t.Context())
	mover := opened(t, ringOf(nodes[:2]...), fixed(start), nil)
	visited := 0
	mover.OnVisit = func() {
		if visited++; visited == int(w.p)+1 {
			want("in the midst of a move", reader, history.Partitions-visited, true, false, nil)
			stop()
		}
	}
	if _, err := mover.Move(ctx, MoveConfig{To: nodes[2].Addr}); err == nil {
		t.Fatal("a mover that was stopped ends without an error")
	}
	want("after a mover was stopped", reader, history.Partitions-visited, true, false, nil)
	move(t, opened(t, ringOf(nodes[:2]...), fixed(start), nil), MoveConfig{To: nodes[2].Addr})
	historytest.All(t, stale)
	want("at a reader that came to the nodes of before", stale, 0, true, true, map[string]int{nodes[2].Addr: history.Partitions})
	want("after a move", reader, 0, true, false, map[string]int{nodes[2].Addr: history.Partitions})
	if p := opened(t, shared(t, topology.Single), nil, nil).Placement(); !maps.Equal(p.Nodes, map[string]int{"": history.Partitions}) {
		t.Errorf("without a ring the placement is %+v, want all on no node", p)
	}
}

// A node that is killed in the midst of a move, and comes back with its append-only file, has lost nothing of it.
func TestKilledNodeLosesNothingOfAMove(t *testing.T) {
	nodes := redistest.Ring(t, 3, redistest.WithConfig("appendonly yes"))
	c := &client{s: opened(t, ringOf(nodes[:2]...), fixed(start), nil), counted: make(map[history.ID]uint64)}
	c.countRound(t, 30)
	atSteps := []string{"copy", "switch", "switched", "table", "remove"}
	if process.Raced() {
		atSteps = atSteps[:3]
	}
	for round, step := range atSteps {
		to := [][]*redistest.Server{nodes, nodes[:2], nodes[1:]}[round%3]
		for _, n := range nodes { // what the client has counted; a writer would send it again
			if err := (&mover{Store: c.s}).waitDurable(t.Context(), n.Addr); err != nil && slices.Contains(c.s.servers.Nodes(), n.Addr) {
				t.Fatal(err)
			}
		}
		killed := false
		mover := opened(t, ringOf(nodes[:2]...), fixed(start), func(cfg *Config) {
			cfg.Step = onceAt(step, func() {
				killed = true
				for _, n := range []*redistest.Server{nodes[round%3], nodes[2]} {
					n.Kill()
					n.Restart(t)
				}
			})
		})
		for try := 0; ; try++ {
			_, err := mover.Move(t.Context(), MoveConfig{To: urlOf(to...)})
			if err == nil {
				break
			}
			if endLocks(t, nodes...); try == 3 {
				t.Fatalf("after a node was killed at %q, movers end with %v", step, err)
			}
		}
		c.countRound(t, 30)
		c.agree(t, c.s)
		if onlyAt(t, c.s, nodes...); !killed {
			t.Errorf("no node was killed at %q", step)
		}
	}
}
