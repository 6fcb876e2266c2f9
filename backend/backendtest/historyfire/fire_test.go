package historyfire

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/redishistory"
)

var (
	kills = flag.Int("kills", 60, "how many writers and jobs are killed, in all tests together; a quarter in the short form")
	seed  = flag.Uint64("seed", 1, "seed of what is killed where and of what comes in")
)

func TestMain(m *testing.M) {
	if text := os.Getenv(ordersVariable); text != "" {
		if err := runChild(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

// seriesCount is how many series there are. Some share a partition, as series do.
const seriesCount = 20

func seriesOf(n int) history.ID {
	return history.ID{Domain: "fire", Path: fmt.Sprint("rule", n), Outcome: history.Outcome(n % history.Outcomes)}
}

// numbers are the series by ID.
var numbers = func() map[history.ID]int {
	all := make(map[history.ID]int)
	for n := range seriesCount {
		all[seriesOf(n)] = n
	}
	return all
}()

// fire is one history, who works on it, and what it must hold.
type fire struct {
	t       *testing.T
	dir     string
	site    site
	store   *redishistory.Store // of the tests
	random  *rand.Rand
	started int
	writers []*running // of this round
	// losesAcked is set if a server may lose what it has acknowledged: who was killed then cannot send it again.
	losesAcked bool
	counted    [seriesCount]uint64
	batches    int
	gone       int // answers of which a writer heard that a server has forgotten something
}

func newFire(t *testing.T, where site) *fire {
	t.Helper()
	where.Epoch = time.Now()
	f := &fire{t: t, dir: t.TempDir(), site: where, random: rand.New(rand.NewPCG(*seed, 3))}
	store, err := where.open(func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	f.store = store
	t.Logf("-seed %d", *seed)
	return f
}

// running is a child.
type running struct {
	orders
	*process.Process
	stdin  io.Writer
	killed bool
}

// start starts a child that is to die at a step, or at none.
func (f *fire) start(role, die string, nth int) *running {
	f.t.Helper()
	f.started++
	r := &running{orders: orders{Site: f.site, Role: role, Die: die, Nth: int64(nth), Seed: *seed<<32 + uint64(f.started),
		Ledger: filepath.Join(f.dir, fmt.Sprint("ledger", f.started))}}
	text, err := json.Marshal(r.orders)
	if err != nil {
		f.t.Fatal(err)
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), ordersVariable+"="+string(text))
	if r.stdin, err = c.StdinPipe(); err != nil {
		f.t.Fatal(err)
	}
	r.Process = process.Run(f.t, role, c)
	if role == "writer" {
		f.writers = append(f.writers, r)
	}
	return r
}

// stop ends a child as a drain does.
func (f *fire) stop(r *running) {
	f.t.Helper()
	_, _ = io.WriteString(r.stdin, "stop\n") // it may have ended, which is found below
	if code := r.ExitCode(f.t); code != 0 {
		f.t.Errorf("a %s that was told to stop ended with %d:\n%s", r.Role, code, r.Log)
	}
}

// killOne starts a child that kills itself at one of some steps, or is killed at a random instant: also where it does not
// come to its step soon.
func (f *fire) killOne(role string, steps []string) {
	f.t.Helper()
	die, nth, wait := steps[f.random.IntN(len(steps))], 1+f.random.IntN(3), 500*time.Millisecond
	if die == anyStep {
		nth = 1 + f.random.IntN(40)
	}
	if f.random.IntN(4) == 0 {
		die, wait = "", time.Duration(30+f.random.IntN(120))*time.Millisecond
	}
	r := f.start(role, die, nth)
	for began := time.Now(); r.Ended() == nil && time.Since(began) < wait; {
		time.Sleep(time.Millisecond)
	}
	r.Kill()
	r.killed = true
	if code := r.ExitCode(f.t); code != -1 {
		f.t.Errorf("a %s was to be killed and ended by itself with %d:\n%s", role, code, r.Log)
	}
}

var stepsOf = map[string][]string{
	"writer": {anyStep, "apply", "applied", "downsample 1m", "downsampled 1m", "downsample 5m", "downsampled 5m"},
	"job": {anyStep, anyStep, anyStep, anyStep, "downsample 1m", "downsampled 1m", "downsample 5m", "downsampled 5m",
		"downsample 1h", "downsampled 1h", "downsample 1d", "downsampled 1d", "delete writers", "deleted writers"},
}

// burn kills so many writers and jobs beside two writers and a job that live, has the servers disturbed in the midst of
// it, and compares every series when all writers have ended.
func (f *fire) burn(kills int, disturb func(), end func(drain func())) {
	f.t.Helper()
	lives := []*running{f.start("writer", "", 0), f.start("writer", "", 0), f.start("job", "", 0)}
	var done atomic.Bool
	var reading sync.WaitGroup
	reading.Go(func() {
		for !done.Load() {
			err := f.store.Query(f.t.Context(), historytest.Everything(), func(s history.Series) error {
				if !s.Exact() {
					f.t.Errorf("-seed %d, in the midst of it %+v does not add up: %v", *seed, s, s.Err)
				}
				return nil
			})
			_ = err // a server is away, or a slot is on its way
			time.Sleep(20 * time.Millisecond)
		}
	})
	for n := range kills {
		if n == kills/2 {
			disturb()
		}
		role := []string{"writer", "job"}[n%2]
		f.killOne(role, stepsOf[role])
	}
	end(func() {
		for _, r := range lives {
			f.stop(r)
		}
	})
	done.Store(true)
	reading.Wait()
	f.exact()
}

// exact audits the writers of a round, all of which have ended, and compares each series with them.
func (f *fire) exact() {
	f.t.Helper()
	for _, r := range f.writers {
		if err := f.audit(r); err != nil {
			f.t.Errorf("-seed %d: %s: %v", *seed, filepath.Base(r.Ledger), err)
		}
	}
	f.writers = nil
	found := make(map[int]uint64)
	process.Eventually(f.t, allBack, func() error {
		return f.store.Query(f.t.Context(), historytest.Everything(), func(s history.Series) error {
			if found[numbers[s.ID]] = s.Lifetime; !s.Exact() {
				f.t.Errorf("-seed %d: %+v does not add up: P1 is broken", *seed, s)
			}
			return s.Err
		})
	})
	for n, want := range f.counted {
		if got := found[n]; got != want {
			f.t.Errorf("-seed %d: %+v has a lifetime of %d hits, and %d were counted: P2 is broken by %d", *seed, seriesOf(n), got, want,
				int64(got-want))
		}
	}
}

// allBack is why an answer may take a moment: the tests' own store must have noticed it.
const allBack = "all servers are back"

// sender is a writer in a partition, where its batches have numbers of their own.
type sender struct {
	writer string
	p      history.Partition
}

// audit asks how far a writer's batches have been counted, adds them to what the series must hold, and wants P2 of one that has
// drained: what it recorded is counted, to the integer.
func (f *fire) audit(r *running) error {
	content, err := os.ReadFile(r.Ledger)
	if err != nil && !r.killed {
		return err
	}
	sent, acked := make(map[sender][][seriesCount]uint64), make(map[sender]uint64)
	var drained []uint64
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		var figures []uint64
		for _, text := range fields[1:] {
			var n uint64
			_, _ = fmt.Sscan(text, &n) // a writer's name is none
			figures = append(figures, n)
		}
		switch fields[0] {
		case "X":
			drained = figures
		case "G":
			f.gone++
		case "A":
			s := sender{fields[1], history.Partition(figures[1])}
			acked[s] = max(acked[s], figures[2])
		case "S":
			s := sender{fields[1], history.Partition(figures[1])}
			var h [seriesCount]uint64
			for at := 3; at < len(figures); at += 2 {
				h[figures[at]] += figures[at+1]
			}
			if sent[s] = append(sent[s], h); uint64(len(sent[s])) != figures[2] {
				return fmt.Errorf("batch %d of partition %d comes after %d", figures[2], s.p, len(sent[s])-1)
			}
		}
	}
	counted := uint64(0)
	for s, batches := range sent {
		var at history.ApplyResult
		process.Eventually(f.t, allBack, func() (err error) {
			at, err = f.store.Apply(f.t.Context(), s.p, history.Batch{Writer: s.writer})
			return err
		})
		if at.Last > uint64(len(batches)) || at.Last < acked[s] && !(r.killed && f.losesAcked) {
			return fmt.Errorf("partition %d has %d batches of it: it sent %d and had %d acknowledged", s.p, at.Last, len(batches), acked[s])
		}
		f.batches += int(at.Last)
		for _, batch := range batches[:at.Last] {
			for n, hits := range batch {
				f.counted[n] += hits
				counted += hits
			}
		}
	}
	if !r.killed && (len(drained) != 3 || drained[0] != drained[1] || drained[2] > 0 || drained[0] != counted) {
		return fmt.Errorf("it recorded %v (itself, its exporter, and what that has not brought), and %d were counted", drained, counted)
	}
	return nil
}

// finish rolls what is left to roll, and compares once more.
func (f *fire) finish() {
	f.t.Helper()
	process.Eventually(f.t, allBack, func() error {
		_, err := f.store.Downsample(context.Background(), f.site.now())
		return err
	})
	f.exact()
	if f.losesAcked && f.gone == 0 {
		f.t.Error("no server has forgotten anything, so this has shown nothing")
	}
	f.t.Logf("%d batches were counted; writers heard %d times that some were forgotten; the clock went by %v", f.batches, f.gone, f.site.now().Sub(start).Round(time.Hour))
}

// awaitAcks waits until so many more batches have been acknowledged.
func (f *fire) awaitAcks(n int) {
	f.t.Helper()
	acks := func() (all int) {
		for _, r := range f.writers {
			content, _ := os.ReadFile(r.Ledger) // there is none yet
			all += strings.Count(string(content), "\nA ")
		}
		return all
	}
	want := acks() + n
	process.Eventually(f.t, fmt.Sprint(n, " more batches are acknowledged"), func() error {
		if got := acks(); got < want {
			return fmt.Errorf("%d are missing", want-got)
		}
		return nil
	})
}
