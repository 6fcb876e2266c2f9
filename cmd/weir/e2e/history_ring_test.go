package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// Three nodes of a history become five and then two while clients count, jobs run, and people ask. Movers, nodes and weirs
// are killed on the way: no hit is there twice, none is missing but for what a killed weir had not stored, and no answer
// is ever wrong.
func TestRingMovesThroughKills(t *testing.T) {
	t.Parallel()
	r := startRing(t)
	r.startReaders(t)
	sizes, begin := []int{3, 5, 2}, time.Now()
	if !testing.Short() && !process.Raced() {
		sizes = append(sizes, 3, 5, 2, 5, 3, 2)
	}
	for round := 1; round < len(sizes); round++ {
		t.Logf("%v: round %d", time.Since(begin).Round(time.Second), round)
		before, after := r.url(sizes[round-1]), r.url(sizes[round])
		r.importOld(t, round)
		r.killInMidst(t, after, before)
		if printed, code := r.run(t, "history", "move", "--to", after); code != 2 || !strings.Contains(printed, "another move runs from host ") {
			t.Errorf("beside a mover, or just after one was killed, another ends with %d and prints\n%s", code, printed)
		}
		r.killNode(t, round%len(r.nodes))
		r.killJob(t)
		r.awaitLocks(t, testing.Short() || round > 1)
		r.agree(t)
		r.killWeir(t, round%len(r.weirs))
		r.moveThroughKilledNode(t, after)
		did, code := r.run(t, "downsample")
		if due, _ := r.run(t, "downsample", "--dry-run"); code != 0 || !strings.Contains(due, "256 of 256 partitions: 0 series are due") {
			t.Errorf("after a move the job ends with %d and prints\n%s\nand another would find\n%s", code, did, due)
		}
		r.agree(t)
	}
	r.wantAt(t, r.names(2))
}

// ringRules is how many rules, each with a series, TestRingMovesThroughKills has.
const ringRules = 40

// countedRing is a history on a ring, those who count and ask there, and what they know.
type countedRing struct {
	nodes   []*redistest.Server
	env     []string
	weirs   []*weirtest.Weir
	clients []*countingClient
	reader  *weirtest.Weir // a weir history serve

	old      atomic.Uint64 // hits that were imported, or are being
	atLeast  atomic.Uint64 // the most hits that any answer had
	unstored uint64        // at most so many of those answered were lost with their weirs
	answers  [4]atomic.Uint64
}

func startRing(t *testing.T) *countedRing {
	r := &countedRing{nodes: redistest.Ring(t, 5, redistest.WithConfig("appendonly yes", "appendfsync always"))}
	r.env = []string{"REDIS_TYPE=ring", "REDIS_HISTORY_URL=" + r.url(3), weirtest.PatientRedis}
	var rules strings.Builder
	for i := range ringRules {
		fmt.Fprintf(&rules, "- key: r%d\n  rate_limit: {unit: hour, requests_per_unit: 1000000}\n", i)
	}
	for range 2 {
		w := weirtest.Serve(t, rules.String(), append(r.env, "HISTORY_FLUSH_INTERVAL=1s", "DRAIN_DELAY=0s")...)
		c := &countingClient{}
		t.Cleanup(c.start(t, w))
		r.weirs, r.clients = append(r.weirs, w), append(r.clients, c)
	}
	r.reader = weirtest.New(t, r.env...)
	awaitMetrics(t, r.weirs[0], "hits are stored", func(m weirtest.Metrics) bool { return m["weir_history_landed_hits_total"] > 0 })
	r.reader.Start(t, process.Weir(t), "history", "serve")
	r.reader.AwaitReady(t)
	return r
}

// names are the nodes of a ring of so many: of two those that a ring of three does not have.
func (r *countedRing) names(n int) (names []string) {
	nodes := r.nodes[:n]
	if n == 2 {
		nodes = r.nodes[3:]
	}
	for _, node := range nodes {
		names = append(names, node.Addr)
	}
	return names
}

func (r *countedRing) url(n int) string { return strings.Join(r.names(n), ",") }

// run runs a command of weir to its end.
func (r *countedRing) run(t *testing.T, args ...string) (printed string, code int) {
	return process.Command(t, r.env, process.Weir(t), args...)
}

// asked is how many hits there may be at most, lost and failed ones included.
func (r *countedRing) asked() (hits uint64) {
	hits = r.old.Load()
	for _, c := range r.clients {
		hits += c.asked.Load()
	}
	return hits
}

// startReaders asks for all hits all the time, in each way that there is.
func (r *countedRing) startReaders(t *testing.T) {
	export := func() (hits uint64, err error) {
		printed, code := r.run(t, "history", "export", "--domain", "shop")
		for line := range strings.Lines(printed) {
			if cells := strings.Split(line, ","); len(cells) == 8 && cells[0] == "shop" {
				sum, _ := strconv.ParseUint(cells[6], 10, 64)
				hits += sum
			}
		}
		if code != 0 {
			err = fmt.Errorf("code %d: %s", code, printed)
		}
		return hits, err
	}
	lifetimes := func() (uint64, error) {
		all, err := r.weirs[0].Lifetimes()
		return all["within"], err
	}
	promQL := func() (uint64, error) {
		text, err := query(r.reader, "sum(weir_hits_total)")
		hits, _ := strconv.ParseUint(text, 10, 64)
		return hits, err
	}
	verify := func() (uint64, error) {
		printed, code := r.run(t, "history", "verify")
		if code == 1 {
			t.Errorf("weir history verify finds\n%s", printed)
		}
		return r.atLeast.Load(), map[bool]error{true: fmt.Errorf("code %d: %s", code, printed)}[code != 0]
	}
	var running sync.WaitGroup
	end := make(chan bool)
	for i, ask := range []func() (uint64, error){export, lifetimes, promQL, verify} {
		running.Go(func() {
			for {
				select {
				case <-end:
					return
				case <-time.After([...]time.Duration{3 * time.Second, time.Second / 2, time.Second / 2, 2 * time.Second}[i]): // two are processes
					r.ask(t, i, ask)
				}
			}
		})
	}
	t.Cleanup(func() {
		close(end)
		running.Wait()
		for i := range r.answers {
			if r.answers[i].Load() < 3 {
				t.Errorf("a way to ask, %d, has had %d answers", i, r.answers[i].Load())
			}
		}
	})
}

// ask wants that an answer has all that one before it had, and nothing that nobody has asked for. While a node is away
// there may be none.
func (r *countedRing) ask(t *testing.T, way int, ask func() (uint64, error)) {
	before := r.atLeast.Load()
	hits, err := ask()
	if err != nil {
		return
	}
	r.answers[way].Add(1)
	if asked := r.asked(); hits < before || hits > asked {
		t.Errorf("way %d to ask is answered %d, want at least the %d of before, and at most the %d that were asked for", way, hits, before, asked)
	}
	for seen := r.atLeast.Load(); hits > seen && !r.atLeast.CompareAndSwap(seen, hits); seen = r.atLeast.Load() {
	}
}

// importOld imports minutes that are old enough for the job.
func (r *countedRing) importOld(t *testing.T, round int) {
	t.Helper()
	var text strings.Builder
	text.WriteString("domain,path,outcome,value,start,width,sum,peak\n")
	last := time.Now().Add(-30 * time.Hour).Truncate(time.Hour).Unix()
	for i := range 60 {
		r.old.Add(7)
		fmt.Fprintf(&text, "shop,old%d=%d,within,,%d,60,7,\n", round, i%6, last+int64(i/6)*60)
	}
	file := filepath.Join(t.TempDir(), "old.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if printed, code := r.run(t, "history", "import", file); code != 0 {
		t.Fatalf("weir history import ends with %d and prints\n%s", code, printed)
	}
}

// killInMidst kills a mover in the middle: where one has ended before, the next goes back.
func (r *countedRing) killInMidst(t *testing.T, to, back string) {
	t.Helper()
	for ; ; to, back = back, to {
		mover := process.Start(t, "weir history move", r.env, process.Weir(t), "history", "move", "--to", to)
		if r.inMidst(t, mover) {
			mover.Kill()
			return
		}
	}
}

// left is how many partitions the table says are yet to be moved.
func (r *countedRing) left(t *testing.T) (n int) {
	table := r.nodes[4].Client().Get(t.Context(), "weir:h:placement").Val() // which a ring of three does not have
	if m := regexp.MustCompile(`"left":(\d+)`).FindStringSubmatch(table); m != nil {
		n, _ = strconv.Atoi(m[1])
	}
	return n
}

// inMidst waits until a mover has moved some partitions, and reports whether it has yet to move others.
func (r *countedRing) inMidst(t *testing.T, mover *process.Process) bool {
	for most := 0; mover.Ended() == nil; time.Sleep(time.Millisecond) {
		left := r.left(t)
		if most = max(most, left); left > 10 && left < most-5 {
			return true
		}
	}
	return false
}

// killNode kills a node, which comes back with its append-only file.
func (r *countedRing) killNode(t *testing.T, i int) {
	t.Helper()
	r.nodes[i].Kill()
	time.Sleep(300 * time.Millisecond)
	r.nodes[i].Restart(t)
}

// killJob kills a job on its way, and runs another as far as it comes.
func (r *countedRing) killJob(t *testing.T) {
	t.Helper()
	job := process.Start(t, "weir downsample", r.env, process.Weir(t), "downsample")
	time.Sleep(200 * time.Millisecond)
	job.Kill()
	r.run(t, "downsample") // which ends with 2 where the fence of the killed mover holds it up
}

// killWeir kills a weir and starts it again. What it has not stored is lost.
func (r *countedRing) killWeir(t *testing.T, i int) {
	t.Helper()
	m, err := r.weirs[i].Scrape()
	if err != nil {
		t.Fatal(err)
	}
	c := r.clients[i]
	r.weirs[i].Kill()
	c.mu.Lock()
	defer c.mu.Unlock()
	r.unstored += c.asked.Load() - c.before - uint64(m["weir_history_landed_hits_total"])
	r.weirs[i].Restart(t)
	c.before = c.asked.Load()
}

// awaitLocks waits until a mover that was killed holds nothing any more. Soon is without that wait.
func (r *countedRing) awaitLocks(t *testing.T, soon bool) {
	t.Helper()
	for _, n := range r.nodes {
		if soon {
			n.Client().Del(t.Context(), "weir:h:mover")
		}
		weirtest.Eventually(t, "its locks have ended", func() error {
			if held := n.Client().Get(t.Context(), "weir:h:mover").Val(); held != "" {
				return fmt.Errorf("there is %q", held)
			}
			return nil
		})
	}
}

// moveThroughKilledNode runs movers until one has come to its end. In the midst of the first a node is killed.
func (r *countedRing) moveThroughKilledNode(t *testing.T, to string) {
	t.Helper()
	mover := process.Start(t, "weir history move", r.env, process.Weir(t), "history", "move", "--to", to)
	if r.inMidst(t, mover) {
		r.killNode(t, 3) // which both of the rings have
	}
	for try := range 5 {
		r.awaitLocks(t, true)
		printed, code := r.run(t, "history", "move", "--to", to)
		if code == 0 && strings.Contains(printed, "Now set REDIS_HISTORY_URL=") {
			return
		}
		t.Logf("mover %d after a killed node ends with %d: %s", try, code, printed)
		time.Sleep(time.Second)
	}
	t.Fatal("no mover comes to its end")
}

// agree stops the clients until all is stored, and wants in the history what they were told.
func (r *countedRing) agree(t *testing.T) {
	t.Helper()
	var answered uint64
	for i, c := range r.clients {
		c.mu.Lock()
		defer c.mu.Unlock()
		answered += c.asked.Load()
		awaitMetrics(t, r.weirs[i], "all hits are stored", func(m weirtest.Metrics) bool {
			return m["weir_history_landed_hits_total"] == float64(c.asked.Load()-c.before) && m["weir_history_waiting_cells"] == 0 &&
				m["weir_history_lost_hits_total"] == 0
		})
	}
	all, err := r.weirs[0].Lifetimes()
	want := answered + r.old.Load()
	if hits := all["within"]; err != nil || hits > want || hits+r.unstored < want || len(all) != 1 {
		t.Fatalf("the history has %v (%v), want %d hits, and at most %d fewer, which killed weirs had not stored", all, err, want, r.unstored)
	}
	if printed, code := r.run(t, "history", "verify"); code != 0 {
		t.Errorf("weir history verify ends with %d and prints %s", code, printed)
	}
}

// wantAt wants partitions on these nodes and no others.
func (r *countedRing) wantAt(t *testing.T, names []string) {
	t.Helper()
	for _, w := range r.weirs {
		awaitMetrics(t, w, "weir knows where all hits are", func(m weirtest.Metrics) bool {
			on := 0.0
			for _, name := range names {
				at := m[fmt.Sprintf("weir_history_partitions{node=%q}", name)]
				if on += at; at == 0 {
					return false
				}
			}
			return on == 256 && m["weir_history_partitions_to_move"] == 0 && m["weir_history_moved_bytes_total"] > 0
		})
	}
}

// countingClient sends single hits, and counts them. A call that fails is counted too: its weir may have counted it.
type countingClient struct {
	mu     sync.Mutex // locked while a hit is under way
	asked  atomic.Uint64
	before uint64 // asked of weirs that were killed
}

func (c *countingClient) start(t *testing.T, w *weirtest.Weir) (stop func()) {
	asks := w.Client(t)
	end, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond): // its hits are to be many, and take a machine little
			}
			c.mu.Lock()
			c.asked.Add(1)
			_, _ = asks.Ask("shop", weirtest.Describe(fmt.Sprint("r", i%ringRules), "ann"))
			c.mu.Unlock()
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// awaitMetrics waits until what weir tells Prometheus is as it should be.
func awaitMetrics(t *testing.T, w *weirtest.Weir, promise string, reached func(m weirtest.Metrics) bool) {
	t.Helper()
	w.Eventually(t, promise, func() error {
		m, err := w.Scrape()
		if err == nil && !reached(m) {
			text, _ := weirtest.Get(w.Admin + "/metrics")
			err = fmt.Errorf("it tells %q", regexp.MustCompile(`(?m)^weir_history.*$`).FindAllString(text, -1))
		}
		return err
	})
}
