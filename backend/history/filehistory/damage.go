package filehistory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"syscall"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// guard runs an operation on the database. bbolt panics where a page is not what it should be, and where the file is
// shorter than its map, or has moved under it, touching it is a fault. Neither may end the process: the limiter is in
// it. After such a thing bbolt's locks may be held forever, so nothing is asked of it any more.
func (s *Store) guard(operation func() error) (err error) {
	if broken := s.damaged.Load(); broken != nil {
		return *broken
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%s %w (%v)", s.name, ErrDamaged, cause)
			s.damaged.Store(&err)
		}
	}()
	return operation()
}

// inTurn does something when it is its turn. Turns are taken in the order in which they were asked for, so that a job of
// many transactions does not keep others out.
func (s *Store) inTurn(ctx context.Context, do func() error) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return s.wrap(ctx.Err())
	}
	defer func() { <-s.turn }()
	return do()
}

// update runs a transaction that writes. The caller holds the turn.
func (s *Store) update(write func(*bolt.Tx) error) error {
	return s.guard(func() error { return s.wrap(s.db.Update(write)) })
}

func (s *Store) view(read func(*bolt.Tx) error) error {
	return s.guard(func() error { return s.wrap(s.db.View(read)) })
}

// inspect looks at a file before it is opened for writing: whether it is all there, and this version's. A database that
// is opened for reading touches nothing but its first two pages.
func (s *Store) inspect(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil // a new file
	}
	info, err := os.Stat(path) // what a link leads to
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = errors.New("it is a symbolic link to a file that is missing")
	case err == nil && !info.Mode().IsRegular():
		err = fmt.Errorf("it is no regular file (its mode is %v)", info.Mode())
	case err == nil && info.Size() == 0:
		return nil // its process died as it began
	}
	if err != nil {
		return s.wrap(err)
	}
	return s.guard(func() error {
		db, err := bolt.Open(path, 0, &bolt.Options{ReadOnly: true, Timeout: lockTimeout})
		var unreadable *fs.PathError
		if err != nil && !errors.Is(err, bolterrors.ErrTimeout) && !errors.As(err, &unreadable) {
			err = fmt.Errorf("%s %w (%w)", s.name, ErrDamaged, err)
		}
		if err != nil {
			return s.wrap(err)
		}
		err = db.View(func(tx *bolt.Tx) error {
			if size, needed := info.Size(), tx.Size(); size < needed {
				return fmt.Errorf("%s %w (it has %d bytes and should have %d or more)", s.name, ErrDamaged, size, needed)
			}
			return s.checkFormat(tx)
		})
		return s.wrap(errors.Join(err, db.Close()))
	})
}

// isFarAway reports whether a page was written where no file can have one: its number came from a damaged list of free
// pages. Linux answers EFBIG or EINVAL to such an offset, and Go refuses one below zero itself. (A file that has become
// too large for its file system fails before, when it is to grow.)
func isFarAway(err error) bool {
	var write *fs.PathError
	return errors.As(err, &write) && (write.Op == "writeat" ||
		write.Op == "write" && (errors.Is(err, syscall.EFBIG) || errors.Is(err, syscall.EINVAL)))
}
