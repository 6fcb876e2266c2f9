package filehistory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
)

func TestOpenReportsAFileInUse(t *testing.T) {
	c := Config{Dir: t.TempDir(), Retention: history.DefaultRetention()}
	s := opened(t, Open, c)
	_, err := Open(c) // the lock belongs to the opened file, so this process can be the second
	want := "history file " + filepath.Join(c.Dir, Name) + " is in use by another weir (commands ask it by --admin)"
	if !errors.Is(err, ErrInUse) || err.Error() != want {
		t.Errorf("a second Open says %v, want %q", err, want)
	}
	if err := errors.Join(work(s)...); err != nil {
		t.Errorf("the first store after that: %v", err)
	}
}

func TestOpenLeavesForeignFilesAlone(t *testing.T) {
	write := func(content []byte) func(string) error {
		return func(path string) error { return os.WriteFile(path, content, 0o600) }
	}
	database := func(fill func(tx *bolt.Tx) error) func(string) error {
		return func(path string) error {
			db, err := bolt.Open(path, 0o600, nil)
			if err != nil {
				return err
			}
			return errors.Join(db.Update(fill), db.Close())
		}
	}
	for _, c := range []struct {
		promise      string
		make         func(path string) error
		fine, format bool // it is used, or its error is ErrFormat
	}{
		{"a later version's", database(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucket(aboutBucket)
			return errors.Join(err, b.Put(formatKey, []byte("weir history 2")))
		}), false, true},
		{"another program's", database(func(tx *bolt.Tx) error {
			_, err := tx.CreateBucket([]byte("invoices"))
			return err
		}), false, true},
		{"a text", write(bytes.Repeat([]byte("hello\n"), 5000)), false, false},
		{"a few bytes", write([]byte("hello")), false, false},
		{"zeros", write(make([]byte, 1<<16)), false, false},
		{"a directory", func(path string) error { return os.Mkdir(path, 0o700) }, false, false},
		{"a pipe", func(path string) error { return syscall.Mkfifo(path, 0o600) }, false, false},
		{"a process that died before the first page", write(nil), true, false},
		{"a process that died before the buckets", database(func(*bolt.Tx) error { return nil }), true, false},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, Name)
		if err := c.make(path); err != nil {
			t.Fatal(err)
		}
		content := func() (content []byte) {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				content, _ = os.ReadFile(path)
			}
			return content
		}
		before := content()
		err := errors.Join(use(dir)...)
		if c.fine != (err == nil) || !c.fine && !strings.Contains(err.Error(), path) || c.format != errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, want it to be used (%v) or an error with the file's name, ErrFormat (%v)", c.promise, err, c.fine, c.format)
		}
		if !c.fine && !bytes.Equal(before, content()) {
			t.Errorf("%s: the file was changed: whoever wrote it wants it back", c.promise)
		}
	}
}

func TestOpenReportsAnUnwritableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{Dir: filepath.Join(file, "data"), Retention: history.DefaultRetention()}
	if _, err := Open(c); err == nil || !strings.Contains(err.Error(), filepath.Join(c.Dir, Name)) {
		t.Errorf("Open says %v, want an error with the file's name", err)
	}
	if err := errors.Join(work(opened(t, InMemory, c))...); err != nil {
		t.Errorf("a store in memory: %v", err)
	}
}

func TestCountsSurviveARestart(t *testing.T) {
	dir := holding(t, wholeFile(t))
	private := func(name string, want os.FileMode) {
		t.Helper()
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s is %v, %v, want mode %v: values of requests are in it", name, info.Mode(), err, want)
		}
	}
	private(filepath.Join(dir, Name), 0o600)
	if err := os.Chmod(filepath.Join(dir, Name), 0o664); err != nil { // as a volume's owner does
		t.Fatal(err)
	}
	read := func() map[history.ID]history.Series {
		s := opened(t, Open, Config{Dir: dir})
		all := historytest.All(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return all
	}
	first := read()
	private(filepath.Join(dir, Name), 0o600)
	second := read()
	opened(t, Open, Config{Dir: filepath.Join(dir, "new")})
	private(filepath.Join(dir, "new"), 0o700)
	if len(first) != 1000 || !reflect.DeepEqual(first, second) {
		t.Errorf("%d series, then %d, want the same 1000 with the same points", len(first), len(second))
	}
}

func TestInMemoryRefusesAnEmptyRetention(t *testing.T) {
	if _, err := InMemory(Config{}); err == nil {
		t.Error("a store opened that keeps nothing at all")
	}
}

// TestFormatDocumentExampleHolds replays the example of FORMAT.md and compares the rows, byte by byte, before the job
// and after.
func TestFormatDocumentExampleHolds(t *testing.T) {
	clock := time.Date(2026, 11, 21, 12, 3, 30, 0, time.UTC)
	s := opened(t, Open, Config{Dir: t.TempDir(), Now: func() time.Time { return clock }})
	within := history.ID{Domain: "shop", Path: "user/path=%2Fpay", Outcome: history.Within}
	over := history.ID{Domain: "shop", Path: "user/path=%2Fpay", Outcome: history.Over}
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Unix() / 60
	for _, i := range []history.Increment{{ID: within, Minute: noon, Hits: 40}, {ID: within, Minute: noon + 1, Hits: 300},
		{ID: within, Minute: noon + 3, Hits: 7}, {ID: over, Minute: noon + 1, Hits: 25}} {
		p := i.ID.Partition()
		at, err := s.Apply(context.Background(), p, history.Batch{Writer: "k3v9"})
		if err != nil {
			t.Fatal(err)
		}
		b := history.Batch{Writer: "k3v9", Seq: at.Last + 1, After: at.Last, Increments: []history.Increment{i}}
		if _, err := s.Apply(context.Background(), p, b); err != nil {
			t.Fatal(err)
		}
	}
	guide, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	compare := func(when string) {
		if dump := s.dump(t); !strings.Contains(string(guide), dump) {
			t.Errorf("FORMAT.md does not show what the file really holds %s:\n%s", when, dump)
		}
	}
	compare("at 12:03:30")
	clock = clock.Add(25 * time.Hour)
	historytest.Downsample(t, s, clock)
	compare("after the job of the next day")
}

// dump returns all rows, the parts of their keys apart.
func (s *Store) dump(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	err := s.view(func(tx *bolt.Tx) error {
		return tx.Bucket(rowsBucket).ForEach(func(key, value []byte) error {
			name := fmt.Sprintf("%02x %c ", key[0], key[1])
			switch key[1] {
			case positionRow:
				name += string(key[2:])
			case chunkRow:
				name += fmt.Sprintf("%x %x %x", key[2], key[3:7], key[7:])
			default:
				name += fmt.Sprintf("%x", key[2:])
			}
			fmt.Fprintf(&out, "%-49s  % x\n", name, value)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
