// Package filehistory stores the history of hits in a file, or in memory if no file can be written. One process locks
// the file; others have to query that process.
package filehistory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/weirproxy/weir/backend/history"
)

// Name is the file's name in its directory.
const Name = "history.db"

// lockTimeout is how long Open waits for the lock of the file, as a process that is ending may still have it.
const lockTimeout = time.Second

var (
	// ErrInUse means that another process has locked the file.
	ErrInUse = errors.New("is in use by another weir (commands ask it by --admin)")
	// ErrDamaged means that the file has something that weir did not write. The store deletes nothing.
	ErrDamaged = errors.New("is damaged: stop weir and move the file away; a new one will begin empty")
	// ErrFormat means that another version or program wrote the file. The store does not change it.
	ErrFormat = errors.New("was not written by this version of weir")
)

// Config configures a store.
type Config struct {
	Dir       string // holds the file; made if it is missing
	Retention history.Retention
	Now       func() time.Time // the store's clock; nil for time.Now
	// Step, if not nil, is called before and after each step at which a crash could matter, with its name. For tests.
	Step func(name string)
}

// Store is a [history.Store] in one file.
type Store struct {
	name    string // in errors
	c       Config // with its defaults
	db      *bolt.DB
	writing sync.Mutex // held by the one goroutine that writes
	damaged atomic.Pointer[error]

	mu      sync.Mutex
	waiting []*pendingBatch
}

var _ history.Store = (*Store)(nil)

// Open opens or creates the file, and locks it. Its errors name the file, and may wrap ErrInUse, ErrDamaged or
// ErrFormat.
func Open(c Config) (*Store, error) {
	path := filepath.Join(c.Dir, Name)
	s, err := newStore("history file "+path, c)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, s.wrap(err)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // opening a pipe might block forever
		return nil, s.wrap(fmt.Errorf("it is no regular file (its mode is %v)", info.Mode()))
	}
	return s, s.open(path, bolt.Options{Timeout: lockTimeout, FreelistType: bolt.FreelistMapType, OpenFile: os.OpenFile})
}

// InMemory opens a store that ends with its process. It ignores Dir.
func InMemory(c Config) (*Store, error) {
	s, err := newStore("history in memory", c)
	if err != nil {
		return nil, err
	}
	return s, s.open("weir-history", bolt.Options{FreelistType: bolt.FreelistMapType, NoSync: true, OpenFile: openMemory})
}

func newStore(name string, c Config) (*Store, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Step == nil {
		c.Step = func(string) {}
	}
	s := &Store{name: name, c: c}
	return s, s.wrap(c.Retention.Check())
}

// open opens the database for writing. If it fails, nothing stays open, and a file of another version is unchanged.
func (s *Store) open(path string, o bolt.Options) error {
	var opened *os.File
	openFile := o.OpenFile
	o.OpenFile = func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
		opened, err = openFile(name, flag, mode)
		return opened, err
	}
	err := s.guard(func() (err error) {
		var system *fs.PathError
		s.db, err = bolt.Open(path, 0o600, &o)
		switch {
		case err == nil:
			return s.db.Update(func(tx *bolt.Tx) error { return s.initialize(tx, opened) })
		case errors.Is(err, bolterrors.ErrTimeout), errors.As(err, &system):
			return err
		}
		return fmt.Errorf("%s %w (%w)", s.name, ErrDamaged, err)
	})
	if err != nil && s.db != nil && s.damaged.Load() == nil {
		_ = s.db.Close()
	}
	if err != nil && opened != nil {
		_ = opened.Close() // releases the lock, even if the database is damaged
	}
	return s.wrap(err)
}

// WaitReplicated implements [history.Store]. It does nothing, as a file has no failover.
func (s *Store) WaitReplicated(context.Context) error { return nil }

// Close waits for running transactions and closes the store.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.damaged.Load() != nil {
		return nil // its locks may be held forever; the end of the process releases the file
	}
	return s.wrap(s.db.Close())
}

// wrap adds the name of the file to an error, once.
func (s *Store) wrap(err error) error {
	switch {
	case err == nil, strings.HasPrefix(err.Error(), s.name):
		return err
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%s %w", s.name, ErrInUse)
	case errors.Is(err, bolterrors.ErrIncompatibleValue), isImpossibleOffset(err):
		return fmt.Errorf("%s %w (%w)", s.name, ErrDamaged, err)
	}
	return fmt.Errorf("%s: %w", s.name, err)
}
