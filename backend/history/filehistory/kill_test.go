package filehistory

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/history"
)

var (
	kills  = flag.Int("kills", 25, "how often a process is killed, a third of it in the short form")
	victim = flag.String("victim", "", "run as the process that writes to this directory, and is killed")
	limit  = flag.Uint64("limit", 0, "as the victim: no file may become larger")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *victim == "" {
		os.Exit(m.Run())
	}
	if err := writeForEver(*victim, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "error", err)
		os.Exit(1)
	}
}

// victimTime is the time by the victim's clock.
var victimTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// victimSeries are those that the victim writes to, of victimPartition.
var victimPartition, victimSeries = historytest.Partners(6)

// victimBatch returns the batch of a number: the same in each process. Its hits are of the last hundred days.
func victimBatch(seq uint64) history.Batch {
	r, ids := rand.New(rand.NewPCG(seq, 5)), victimSeries
	b := history.Batch{Writer: "victim", Seq: seq, After: seq - 1}
	for n := range int64(20) {
		age := r.Int64N(1 << r.IntN(18))
		b.Increments = append(b.Increments, history.Increment{ID: ids[r.IntN(len(ids))],
			Minute: victimTime.Unix()/60 - age*30 - n, Hits: 1 + r.Uint64N(100)})
	}
	return b
}

// acks is the file beside the history in which a victim says what was counted, line by line: the kernel keeps each line
// when the victim is killed.
const acks = "acks"

// writeForEver sends batches one after the other, from where the store is, says the number of each that was counted,
// and runs the job beside. When a batch has been refused three times there is room again.
func writeForEver(dir string, limit uint64) error {
	signal.Ignore(syscall.SIGXFSZ)
	if err := limitFiles(limit); err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(dir, acks), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	keep := history.DefaultRetention()
	keep.MaxPoints, keep.Ages[history.Days] = 100, 60*24*time.Hour
	s, err := Open(Config{Dir: dir, Retention: keep, Now: func() time.Time { return victimTime }})
	if err != nil {
		return err
	}
	go func() {
		for {
			if _, err := s.Downsample(context.Background(), victimTime); err != nil {
				time.Sleep(time.Millisecond)
			}
		}
	}()
	at, err := s.Apply(context.Background(), victimPartition, history.Batch{Writer: "victim"})
	if err != nil {
		return err
	}
	for seq := at.Last + 1; ; seq++ {
		for refused := 1; ; refused++ {
			_, err := s.Apply(context.Background(), victimPartition, victimBatch(seq))
			if err == nil {
				break
			}
			fmt.Fprintln(out, "full", err)
			if refused == 3 {
				err = limitFiles(math.MaxUint64)
			}
			if refused >= 3 && err != nil {
				return err
			}
		}
		fmt.Fprintln(out, seq)
	}
}

// limitFiles gives a process of its own a full disk: no file may grow beyond a size. 0 changes nothing.
func limitFiles(size uint64) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &now); err != nil || size == 0 {
		return err
	}
	now.Cur = min(size, now.Max)
	return unix.Setrlimit(unix.RLIMIT_FSIZE, &now)
}

// startVictim starts a process that writes to a directory, and waits until it does.
func startVictim(t *testing.T, dir string, more ...string) *process.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before := len(said(t, dir))
	v := process.Run(t, "victim", exec.Command(self, append([]string{"-victim", dir}, more...)...))
	v.AwaitReady(t, func() error {
		if len(said(t, dir)) == before {
			return errors.New("it has said nothing")
		}
		return nil
	})
	return v
}

// said are the lines that victims have said so far.
func said(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, acks))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return slices.Collect(strings.Lines(string(text)))
}

// told is the number of the last batch that a victim said was counted.
func told(t *testing.T, lines []string) (last uint64) {
	t.Helper()
	for _, line := range slices.Backward(lines) {
		if n, err := fmt.Sscan(line, &last); n == 1 && err == nil {
			return last
		}
	}
	return 0
}

// holds fails the test unless the file holds the victim's first batches, all that were acknowledged and at most one
// more, and each series of them to the integer.
func holds(t *testing.T, dir string, told uint64) {
	t.Helper()
	s := opened(t, Open, Config{Dir: dir, Now: func() time.Time { return victimTime }})
	at, err := s.Apply(context.Background(), victimPartition, history.Batch{Writer: "victim"})
	if err != nil || at.Last < told || at.Last > told+1 {
		t.Fatalf("the file holds batch %d (%v), and %d was acknowledged: it must hold that, and the one under way at "+
			"most", at.Last, err, told)
	}
	want := make(map[history.ID]uint64)
	for seq := uint64(1); seq <= at.Last; seq++ {
		for _, i := range victimBatch(seq).Increments {
			want[i.ID] += i.Hits
		}
	}
	for id, got := range historytest.All(t, s) {
		if got.Lifetime != want[id] || !got.Exact() {
			t.Errorf("%+v, want it exact, with %d hits", got, want[id])
		}
		delete(want, id)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// The victim writes and rolls when it is killed; the file must be right to the integer each time.
func TestKilledProcessLeavesEachHitOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(*seed, 6))
	for range third(*kills) {
		v := startVictim(t, dir)
		time.Sleep(time.Duration(r.Int64N(int64(100 * time.Millisecond))))
		v.Kill()
		holds(t, dir, told(t, said(t, dir)))
	}
	t.Logf("%d kills, %d batches, exact after each", third(*kills), told(t, said(t, dir)))
}

func TestFullDiskLosesNoHits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	v := startVictim(t, dir, "-limit", fmt.Sprint(64<<10))
	full := func(line string) bool { return strings.HasPrefix(line, "full") }
	v.AwaitReady(t, func() error {
		lines := said(t, dir)
		if at := slices.IndexFunc(lines, full); at < 0 || len(lines) < at+50 {
			return fmt.Errorf("it has said %d lines", len(lines))
		}
		return nil
	})
	v.Kill()
	lines := said(t, dir)
	for _, line := range lines {
		if full(line) && (!strings.Contains(line, Name) || strings.Contains(line, ErrDamaged.Error())) {
			t.Errorf("on a full disk the victim says %q, want the file's name, and no talk of damage", line)
		}
	}
	holds(t, dir, told(t, lines))
}
