package filehistory

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirproxy/weir/backend/history"
)

var (
	kills  = flag.Int("kills", 25, "how often a process is killed")
	victim = flag.String("victim", "", "run as the process that writes to this directory, and is killed")
	limit  = flag.Uint64("limit", 0, "as the victim: no file may become larger")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *victim == "" {
		os.Exit(m.Run())
	}
	if err := writeForEver(*victim, *limit, os.Stdin, os.Stdout); err != nil {
		fmt.Println("error", err)
	}
}

// victimSeries are those that the victim writes to, all of one partition.
var victimSeries = func() []history.ID {
	all := []history.ID{{Domain: "victim"}}
	for n := 0; len(all) < 6; n++ {
		if id := (history.ID{Domain: "victim", Path: fmt.Sprint(n)}); id.Partition() == all[0].Partition() {
			all = append(all, id)
		}
	}
	return all
}()

// victimBatch returns the batch of a number: the same in each process. Its hits are of the last hundred days.
func victimBatch(seq uint64) history.Batch {
	r, ids := rand.New(rand.NewPCG(seq, 5)), victimSeries
	b := history.Batch{Writer: "victim", Seq: seq, After: seq - 1}
	for n := range int64(20) {
		age := r.Int64N(1 << r.IntN(18))
		b.Increments = append(b.Increments, history.Increment{ID: ids[r.IntN(len(ids))],
			Minute: benchStart.Unix()/60 - age*30 - n, Hits: 1 + r.Uint64N(100)})
	}
	return b
}

// writeForEver sends batches one after the other, from where the store is, prints the number of each that has landed,
// and runs the job beside. A store that is full waits for a line of in.
func writeForEver(dir string, limit uint64, in io.Reader, out io.Writer) error {
	signal.Ignore(syscall.SIGXFSZ)
	if err := limitFiles(limit); err != nil {
		return err
	}
	keep := history.DefaultKeep()
	keep.MaxPoints, keep.Ages[history.Days] = 100, 60*24*time.Hour
	s, err := Open(Config{Dir: dir, Keep: keep, Now: func() time.Time { return benchStart }})
	if err != nil {
		return err
	}
	go func() {
		for {
			if _, err := s.Roll(context.Background(), history.Job{Now: benchStart}); err != nil {
				time.Sleep(time.Millisecond)
			}
		}
	}()
	p, lines := victimSeries[0].Partition(), bufio.NewReader(in)
	at, err := s.Apply(context.Background(), p, history.Batch{Writer: "victim"})
	if err != nil {
		return err
	}
	for seq := at.Last + 1; ; seq++ {
		for {
			_, err := s.Apply(context.Background(), p, victimBatch(seq))
			if err == nil {
				break
			}
			fmt.Fprintln(out, "full", err)
			if _, err := lines.ReadString('\n'); err != nil {
				return err
			}
			if err := limitFiles(math.MaxUint64); err != nil {
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

// startVictim starts a process that writes to a directory.
func startVictim(t *testing.T, dir string, more ...string) (c *exec.Cmd, in io.Writer, out *bufio.Scanner) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c = exec.Command(self, append([]string{"-victim", dir}, more...)...)
	c.Stderr = os.Stderr
	in, err = c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() }) // it may have gone already
	return c, in, bufio.NewScanner(pipe)
}

// holds fails the test unless the file holds the victim's first batches, all that were acknowledged and at most one
// more, and each series of them to the integer.
func holds(t *testing.T, dir string, told uint64) {
	t.Helper()
	s, err := Open(Config{Dir: dir, Keep: history.DefaultKeep(), Now: func() time.Time { return benchStart }})
	if err != nil {
		t.Fatal(err)
	}
	at, err := s.Apply(context.Background(), victimSeries[0].Partition(), history.Batch{Writer: "victim"})
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
	err = s.Query(context.Background(), everything, func(got history.Series) error {
		sum := got.Expired
		for _, p := range got.Points {
			sum += p.Sum
		}
		if got.Lifetime != want[got.ID] || sum != got.Lifetime {
			t.Errorf("%v: %d hits landed, its points and what expired make %d; want %d",
				got.ID, got.Lifetime, sum, want[got.ID])
		}
		delete(want, got.ID)
		return nil
	})
	if err != nil || len(want) > 0 {
		t.Errorf("%v; missing: %v", err, want)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// The victim writes and rolls when it is killed; the file must be right to the integer each time.
func TestAKilledProcessLeavesEveryHitOnce(t *testing.T) {
	t.Parallel()
	dir, told := t.TempDir(), uint64(0)
	r := rand.New(rand.NewPCG(*seed, 6))
	for range *kills {
		c, _, out := startVictim(t, dir)
		for killed := false; out.Scan(); killed = true {
			if _, err := fmt.Sscan(out.Text(), &told); err != nil {
				t.Fatalf("the victim says %q", out.Text())
			}
			if !killed {
				time.AfterFunc(time.Duration(r.Int64N(int64(100*time.Millisecond))), func() { _ = c.Process.Kill() })
			}
		}
		_ = c.Wait() // it was killed
		holds(t, dir, told)
	}
	t.Logf("%d kills, %d batches, exact after each", *kills, told)
}

func TestAFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, in, out := startVictim(t, dir, "-limit", fmt.Sprint(64<<10))
	told, fulls := uint64(0), 0
	for out.Scan() {
		line := out.Text()
		if strings.HasPrefix(line, "full") {
			fulls++
			if !strings.Contains(line, Name) || strings.Contains(line, ErrDamaged.Error()) {
				t.Errorf("on a full disk the victim says %q, want the file's name, and no talk of damage", line)
			}
			if _, err := fmt.Fprintln(in, "there is room again"); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if _, err := fmt.Sscan(line, &told); err != nil {
			t.Fatalf("the victim says %q", line)
		}
		if fulls > 0 && told%50 == 0 {
			break
		}
	}
	_ = c.Process.Kill()
	for out.Scan() {
		_, _ = fmt.Sscan(out.Text(), &told) // what it had said by then
	}
	_ = c.Wait() // it was killed
	if fulls == 0 {
		t.Fatal("the disk never ran full")
	}
	holds(t, dir, told)
}
