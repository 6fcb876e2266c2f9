package historyfire

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

var (
	kills = flag.Int("kills", 120, "how many processes are killed, in all tests together")
	seed  = flag.Uint64("seed", 0, "seed of what is killed where and of what comes in; 0 for the clock")
)

func TestMain(m *testing.M) {
	if text := os.Getenv(ordersVariable); text != "" {
		if err := runChild(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := flag.Set("test.parallel", "6"); err != nil { // the tests wait for others more than they work
		panic(err)
	}
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	os.Exit(m.Run())
}

// fire is one history, who works on it, and what it must hold.
type fire struct {
	t     *testing.T
	dir   string
	site  site
	board *board
	seed  uint64
	slots atomic.Int64

	mu      sync.Mutex
	random  *rand.Rand
	tally   map[string]int // kills by what they hit
	living  map[*running]bool
	writers []*running // of this round
	landed  hits       // what the series hold, of the writers of the rounds before
	unsent  hits       // recorded by writers that were killed before the store had acknowledged it
	filled  uint64     // of the hits that landed, those that filled the last series
	batches int
	resent  uint64
	clamped uint64
	refused uint64

	kept      time.Duration              // that writers keep what was acknowledged; see orders
	emptied   map[history.Partition]bool // whose server came back empty in this round
	lost      uint64                     // hits that living writers counted as lost with one
	uncounted uint64                     // hits that were lost with one and whose writers had ended
}

// start is where the clock begins: some weeks before the end of a year, so that weeks are split between two.
var start = time.Date(2026, 12, 1, 11, 59, 48, 700_000_000, time.UTC)

func newFire(t *testing.T, where site, n uint64) *fire {
	dir := t.TempDir()
	f := &fire{t: t, dir: dir, site: where, board: mustBoard(t, filepath.Join(dir, "board")), tally: make(map[string]int),
		random: rand.New(rand.NewPCG(*seed, n)), living: make(map[*running]bool), emptied: make(map[history.Partition]bool)}
	f.seed = *seed + n<<32
	f.board.words[wordClock].Store(start.UnixMicro())
	t.Logf("-seed %d", *seed)
	t.Cleanup(func() {
		for r := range f.living {
			r.kill()
		}
	})
	return f
}

// chance returns a random number below n.
func (f *fire) chance(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.IntN(n)
}

// running is a child.
type running struct {
	orders
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr strings.Builder
	ended  chan struct{}
}

// start starts a child that is to die at a step, or at none.
func (f *fire) start(role, die string, nth int) *running {
	r := &running{ended: make(chan struct{})}
	r.orders = orders{Role: role, Board: filepath.Join(f.dir, "board"), Slot: int(f.slots.Add(1)), Die: die, Nth: int64(nth),
		Site: f.site, Seed: f.seed, Kept: f.kept}
	r.Seed += uint64(r.Slot)
	r.Ledger = filepath.Join(f.dir, fmt.Sprint("ledger", r.Slot))
	f.board.at(r.Slot, slotHeard).Store(f.board.now().UnixMicro())
	text, err := json.Marshal(r.orders)
	if err == nil {
		r.cmd = exec.Command(os.Args[0])
		r.cmd.Env = append(os.Environ(), ordersVariable+"="+string(text))
		r.cmd.Stderr = &r.stderr
		r.stdin, err = r.cmd.StdinPipe()
	}
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		panic(fmt.Errorf("starting a %s: %w", role, err)) // no test of this package can go on
	}
	go func() {
		_ = r.cmd.Wait() // how it ended stands in ProcessState
		close(r.ended)
	}()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.living[r] = true
	if role != "job" {
		f.writers = append(f.writers, r)
	}
	return r
}

func (r *running) kill() {
	_ = r.cmd.Process.Kill() // an error means that it has ended already
	<-r.ended
}

// reap waits for a child that was killed, and notes what that hit.
func (f *fire) reap(r *running, how string) {
	<-r.ended
	status, _ := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() || status.Signal() != syscall.SIGKILL {
		f.t.Errorf("a %s was to be killed and ended by itself: %v\n%s", r.Role, r.cmd.ProcessState, r.stderr.String())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.living, r)
	f.tally[fmt.Sprintf("%s %s", r.Role, how)]++
}

// stop ends a child as a drain does.
func (f *fire) stop(r *running) {
	_, _ = io.WriteString(r.stdin, "stop\n") // it may have ended, which is found below
	select {
	case <-r.ended:
	case <-time.After(2 * time.Minute):
		f.t.Errorf("a %s that was told to stop has not ended", r.Role)
		r.kill()
	}
	if code := r.cmd.ProcessState.ExitCode(); code != 0 {
		f.t.Errorf("a %s that was told to stop ended with %d:\n%s", r.Role, code, r.stderr.String())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.living, r)
}

// patience is how long a child may take from its first step to the one where it is to die, before it is killed wherever
// it is.
const patience = 500 * time.Millisecond

// killOne starts a child and kills it: at one of some steps, where it kills itself, or at a random instant.
func (f *fire) killOne(role string, steps []string) {
	die, wait := steps[f.chance(len(steps))], patience
	if f.chance(4) == 0 {
		die, wait = "", time.Duration(f.chance(60_000))*time.Microsecond
	}
	nth := 1 + f.chance(3)
	if die == anyStep {
		nth = 1 + f.chance(40)
	}
	r := f.start(role, die, nth)
	for f.board.at(r.Slot, slotSteps).Load() == 0 {
		select {
		case <-r.ended:
			wait = 0
		case <-time.After(time.Millisecond):
			continue
		}
		break
	}
	select {
	case <-r.ended:
	case <-time.After(wait):
	}
	f.killNow(r)
}

// halfway are the steps between which and the next something is under way.
var halfway = []string{"apply", "roll 1m", "roll 5m", "roll 1h", "expire", "forget", "apply: before", "apply: counted",
	"apply: rolled early", "roll: moved"}

// killNow kills a child wherever it is, if it has not killed itself.
func (f *fire) killNow(r *running) {
	r.kill()
	how := "at a random instant, elsewhere"
	if step := f.board.stepOf(r.Slot, slotStep); f.board.at(r.Slot, slotDied).Load() > 0 {
		how = "at step " + f.board.stepOf(r.Slot, slotDied)
	} else if slices.Contains(halfway, step) {
		how = "at a random instant, with a step under way"
	}
	f.reap(r, how)
}

// report prints what was killed where.
func (f *fire) report() {
	all, interrupted := 0, 0
	var lines strings.Builder
	for _, how := range slices.Sorted(maps.Keys(f.tally)) {
		n := f.tally[how]
		all += n
		if strings.Contains(how, "step") {
			interrupted += n
		}
		fmt.Fprintf(&lines, "  %4d  %s\n", n, how)
	}
	f.t.Logf("%d kills, of which %d interrupted a step (came at one, or with one under way):\n%s", all, interrupted, &lines)
	f.t.Logf("%d hits landed in %d batches, and %d were refused; %d hits of killed writers were never acknowledged; "+
		"%d batches were sent again after a store forgot them; %d hits had minutes to come; the clock went by %v",
		f.landed.sum()-f.filled, f.batches, f.refused, f.unsent.sum(), f.resent, f.clamped,
		f.board.now().Sub(start).Round(time.Hour))
}

// everything is a query for all there is.
func everything() history.Query {
	return history.Query{From: history.Always().From, To: history.Always().To}
}

// conserved wants P1 of a series: its points and what has expired are its lifetime, and no points overlap.
func conserved(s history.Series) error {
	sum, end := s.Expired, int64(0)
	for _, p := range s.Points {
		if p.Start < end || p.Sum == 0 || p.Peak == 0 || p.Peak > p.Sum {
			return fmt.Errorf("%+v: point %+v after %d", s.ID, p, end)
		}
		sum, end = sum+p.Sum, p.End()
	}
	if sum != s.Lifetime {
		return fmt.Errorf("%+v: its points and %d expired make %d, but its lifetime is %d: P1 is broken",
			s.ID, s.Expired, sum, s.Lifetime)
	}
	return nil
}

// exact audits the writers of a round, all of which have ended, and compares each series with them.
func (f *fire) exact(store history.Store) {
	f.t.Helper()
	for _, r := range f.writers {
		if err := f.audit(store, r); err != nil {
			f.t.Errorf("slot %d: %v", r.Slot, err)
		}
		_ = os.Remove(r.Ledger) // the folder goes in the end
	}
	f.writers = nil
	clear(f.emptied)
	var found hits
	err := store.Query(context.Background(), everything(), func(s history.Series) error {
		n, known := numbers[s.ID]
		if !known {
			return fmt.Errorf("%+v was found, which nobody wrote", s.ID)
		}
		found[n] = s.Lifetime
		return conserved(s)
	})
	if err != nil {
		f.t.Error(err)
	}
	for n, got := range found {
		if want := f.landed[n]; got != want {
			f.t.Errorf("-seed %d: %+v has a lifetime of %d hits, and %d landed: P2 is broken by %d", *seed, seriesOf(n), got, want,
				int64(got-want))
		}
	}
}
