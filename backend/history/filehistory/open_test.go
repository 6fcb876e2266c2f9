package filehistory

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
)

func TestASecondProcessIsToldWhomToAsk(t *testing.T) {
	c := Config{Dir: t.TempDir(), Keep: history.DefaultKeep()}
	s, err := Open(c)
	s = ready(t, s, err)
	_, err = Open(c) // the lock belongs to the opened file, so this process can be the second
	want := "history file " + filepath.Join(c.Dir, Name) + " is in use by another weir: ask it over --admin"
	if !errors.Is(err, ErrInUse) || err.Error() != want {
		t.Errorf("a second Open says %v, want %q", err, want)
	}
	if err := errors.Join(work(s)...); err != nil {
		t.Errorf("the first store after that: %v", err)
	}
}

func TestAnotherFormatIsLeftUntouched(t *testing.T) {
	for promise, write := range map[string]func(tx *bolt.Tx) error{
		"a later version's": func(tx *bolt.Tx) error {
			b, err := tx.CreateBucket(aboutBucket)
			if err != nil {
				return err
			}
			return b.Put(formatKey, []byte("weir history 2"))
		},
		"another program's": func(tx *bolt.Tx) error {
			_, err := tx.CreateBucket([]byte("invoices"))
			return err
		},
	} {
		t.Run(promise, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, Name)
			db, err := bolt.Open(path, 0o600, nil)
			if err == nil {
				err = errors.Join(db.Update(write), db.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			_, err = Open(Config{Dir: dir, Keep: history.DefaultKeep()})
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), path) {
				t.Errorf("Open says %v, want ErrFormat with the file's name", err)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file was changed (%v): whoever wrote it wants it back", err)
			}
		})
	}
}

func TestWhatIsNoDatabaseIsAnErrorAndWhatWasBegunIsUsed(t *testing.T) {
	write := func(content []byte) func(string) error {
		return func(path string) error { return os.WriteFile(path, content, 0o600) }
	}
	for _, c := range []struct {
		promise string
		make    func(path string) error
		fine    bool
	}{
		{"a text", write(bytes.Repeat([]byte("hello\n"), 5000)), false},
		{"a few bytes", write([]byte("hello")), false},
		{"zeros", write(make([]byte, 1<<16)), false},
		{"a directory", func(path string) error { return os.Mkdir(path, 0o700) }, false},
		{"a pipe", func(path string) error { return syscall.Mkfifo(path, 0o600) }, false},
		{"a link to nothing", func(path string) error { return os.Symlink(path+".old", path) }, false},
		{"a process that died before the first page", write(nil), true},
		{"a process that died before the buckets", func(path string) error {
			db, err := bolt.Open(path, 0o600, nil)
			if err != nil {
				return err
			}
			return db.Close()
		}, true},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, Name)
		if err := c.make(path); err != nil {
			t.Fatal(err)
		}
		err := errors.Join(use(dir)...)
		if c.fine != (err == nil) || !c.fine && !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want it to be used (%v) or an error with the file's name", c.promise, err, c.fine)
		}
	}
}

func TestADirectoryThatCannotBeWrittenIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{Dir: filepath.Join(file, "data"), Keep: history.DefaultKeep()}
	if _, err := Open(c); err == nil || !strings.Contains(err.Error(), filepath.Join(c.Dir, Name)) {
		t.Errorf("Open says %v, want an error with the file's name", err)
	}
	s, err := InMemory(c)
	s = ready(t, s, err)
	if err := errors.Join(work(s)...); err != nil {
		t.Errorf("a store in memory: %v", err)
	}
}

func TestWhatWasCountedIsThereAfterARestart(t *testing.T) {
	dir := filled(t)
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
		s, err := Open(Config{Dir: dir, Keep: history.DefaultKeep()})
		if err != nil {
			t.Fatal(err)
		}
		all := historytest.All(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return all
	}
	first := read()
	private(filepath.Join(dir, Name), 0o600)
	second := read()
	fresh, err := Open(Config{Dir: filepath.Join(dir, "new"), Keep: history.DefaultKeep()})
	ready(t, fresh, err)
	private(filepath.Join(dir, "new"), 0o700)
	if len(first) != 1000 || !reflect.DeepEqual(first, second) {
		t.Errorf("%d series, then %d, want the same 1000 with the same points", len(first), len(second))
	}
}

func TestABadKeepIsAnError(t *testing.T) {
	if _, err := InMemory(Config{}); err == nil {
		t.Error("a store opened that keeps nothing at all")
	}
}
