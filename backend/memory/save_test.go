package memory

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// reopen opens a second store on a directory, on the first one's clock, and returns what it logged.
func reopen(t *testing.T, dir string, clk *clock) (*Store, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	s := Open(Config{MaxKeys: 1_000_000, Dir: dir, Now: clk.now, Log: slog.New(slog.NewTextHandler(&log, nil))})
	t.Cleanup(func() { s.Close() })
	return s, &log
}

// save ends a store.
func save(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCountsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	s, clk := open(t, Config{Dir: dir})
	const keys = 1000
	for i := range keys {
		ask(t, s, "key "+strconv.Itoa(i), 10, uint64(1+i%10))
	}
	save(t, s)
	clk.set(s.now() + 20e6)
	again, log := reopen(t, dir, clk)
	if strings.Contains(log.String(), "WARN") {
		t.Errorf("a good file was complained about: %s", log)
	}
	for i := range keys {
		if d := ask(t, again, "key "+strconv.Itoa(i), 10, 1); d.Before != uint64(1+i%10) {
			t.Fatalf("key %d had %d hits before the restart and %d after it", i, 1+i%10, d.Before)
		}
	}
	clk.set(s.now() + 62e6)
	if late, _ := reopen(t, dir, clk); late.Stats().Keys != 0 {
		t.Errorf("%d keys were loaded in which nothing counts any more", late.Stats().Keys)
	}
}

func TestSavedFilesArePrivate(t *testing.T) {
	there := t.TempDir() // as an earlier version, or a volume, left it
	for _, err := range []error{os.Chmod(there, 0o755), os.WriteFile(filepath.Join(there, "lock"), nil, 0o644),
		os.WriteFile(filepath.Join(there, "counters.new"), []byte("torn"), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for dir, mode := range map[string]os.FileMode{filepath.Join(t.TempDir(), "new"): 0o700, there: 0o755} {
		s, _ := open(t, Config{Dir: dir})
		save(t, s)
		for name, want := range map[string]os.FileMode{".": mode, "lock": 0o600, "counters": 0o600} {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil || info.Mode().Perm() != want {
				t.Errorf("%s/%s is %v, %v; want mode %v: keys hold values of requests", dir, name, info.Mode().Perm(), err, want)
			}
		}
	}
}

func TestSmallerStoreKeepsSpentKeys(t *testing.T) {
	dir := t.TempDir()
	s, clk := open(t, Config{Dir: dir})
	ask(t, s, "spent", 5, 5)
	for i := range 1000 {
		ask(t, s, strconv.Itoa(i), 5, 1)
	}
	save(t, s)
	again, _ := open(t, Config{Dir: dir, MaxKeys: 100, Now: clk.now})
	if again.Stats().Keys != 100 || ask(t, again, "spent", 5, 1).Allowed {
		t.Errorf("%+v; want 100 keys, the spent one among them", again.Stats())
	}
}

// A file that is cut off or damaged anywhere is a warning; what stands before the damage is kept, and nothing panics.
func TestDamagedFileIsAWarning(t *testing.T) {
	dir := t.TempDir()
	s, clk := open(t, Config{Dir: dir})
	for i := range 3000 {
		ask(t, s, "a key of some length, so that there are several blocks "+strconv.Itoa(i), 10, 3)
	}
	save(t, s)
	good, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(9, 9))
	rounds := 60
	if testing.Short() {
		rounds = 12
	}
	for round := range rounds {
		torn := bytes.Clone(good)
		at := r.IntN(len(torn))
		if round%2 == 0 {
			torn = torn[:at]
		} else {
			torn[at] ^= 1 << r.IntN(8)
		}
		other := t.TempDir()
		if err := os.WriteFile(filepath.Join(other, fileName), torn, 0o644); err != nil {
			t.Fatal(err)
		}
		again, log := reopen(t, other, clk)
		if _, err := os.Stat(filepath.Join(other, fileName+".torn")); err != nil {
			t.Fatalf("the torn file must be kept for whoever wants to look at it: %v", err)
		}
		if !strings.Contains(log.String(), "level=WARN") {
			t.Fatalf("damage at byte %d of %d went unnoticed", at, len(good))
		}
		if at > len(good)/2 && again.Stats().Keys < 500 {
			t.Errorf("damage at byte %d of %d left only %d keys: what stands before it must be kept", at, len(good), again.Stats().Keys)
		}
		if d := ask(t, again, "new", 5, 1); !d.Allowed {
			t.Fatal("the store does not count after a torn file")
		}
	}
}

// Of two processes on a directory the first saves, until it ends.
func TestDirectoryIsUsedByOneProcess(t *testing.T) {
	dir := t.TempDir()
	s, clk := open(t, Config{Dir: dir})
	second, log := reopen(t, dir, clk)
	successor, _ := reopen(t, dir, clk)
	if !strings.Contains(log.String(), "in use by another process") {
		t.Errorf("want a warning that the directory is in use, got %q", log)
	}
	ask(t, s, "key", 5, 5)
	ask(t, second, "other", 5, 5)
	ask(t, successor, "key", 5, 4)
	save(t, second)
	save(t, s)
	saved := func() uint64 {
		third, _ := reopen(t, dir, clk)
		defer save(t, third)
		return ask(t, third, "key", 5, 0).Before
	}
	if n := saved(); n != 5 {
		t.Errorf("%d of the first process's 5 hits are saved: a second one wrote over them", n)
	}
	successor.saveOrWarn()
	save(t, successor)
	if n := saved(); n != 4 {
		t.Errorf("%d hits are saved, not the 4 of a process that began before its predecessor ended", n)
	}
}

func TestUnusableDirectoryIsAWarning(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s, log := reopen(t, filepath.Join(file, "data"), new(clock))
	if !strings.Contains(log.String(), "counters are not saved") {
		t.Errorf("want a warning, got %q", log)
	}
	if d := ask(t, s, "key", 5, 1); !d.Allowed {
		t.Error("the store does not count without its directory")
	}
}

func TestCountersAreSavedPeriodically(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := Open(Config{MaxKeys: 10, Dir: dir, SaveEvery: time.Minute, Log: slog.New(slog.DiscardHandler)})
		defer s.Close()
		ask(t, s, "key", 5, 5)
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, err := os.Stat(filepath.Join(dir, fileName)); err != nil {
			t.Errorf("nothing was saved in a minute: a crash would forget everything: %v", err)
		}
	})
}

// Saving locks one shard at a time; checks go on meanwhile.
func TestSavingDoesNotBlockCounting(t *testing.T) {
	dir := t.TempDir()
	s, clk := open(t, Config{Dir: dir})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 10_000 {
			ask(t, s, strconv.Itoa(i%2000), 1_000_000, 1)
		}
	}()
	for saved := false; !saved; {
		if err := s.save(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
			saved = true
		default:
		}
	}
	save(t, s)
	again, log := reopen(t, dir, clk)
	if strings.Contains(log.String(), "WARN") || again.Stats().Keys != 2000 {
		t.Errorf("%d keys of 2000 were saved: %s", again.Stats().Keys, log)
	}
}

// Blocks are fuzzed behind their checksum, which would keep nearly all of the fuzzer's bytes out.
func FuzzLoad(f *testing.F) {
	s, clk := open(f, Config{MaxKeys: 100})
	ask(f, s, "key", 5, 3)
	ask(f, s, "other", 5, 5)
	for i := range s.shards {
		if block := s.shards[i].encode(nil, s.now()); len(block) > 0 {
			f.Add(block)
		}
	}
	f.Fuzz(func(t *testing.T, block []byte) {
		s, _ := open(t, Config{MaxKeys: 100, Now: clk.now})
		_ = s.loadBlock(block, s.now()) // an error is right for most blocks
		ask(t, s, "key", 5, 1)
		s.sweepAll()
	})
}
