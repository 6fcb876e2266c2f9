package filehistory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"syscall"

	bolt "go.etcd.io/bbolt"
)

// guard runs an operation on the database. bbolt panics at a damaged page, and reading a file that is shorter than its map
// is a memory fault. Neither may end the process, as the limiter runs in it. Afterwards bbolt's locks may be held forever,
// so guard runs nothing more.
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

// withLock does something while it holds the write lock, unless ctx has ended by then. Goroutines get the lock about in the
// order in which they ask, so that a job of many transactions does not block others.
func (s *Store) withLock(ctx context.Context, do func() error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if ctx.Err() != nil {
		return s.wrap(ctx.Err())
	}
	return do()
}

// update runs a transaction that writes. The caller holds the write lock.
func (s *Store) update(write func(*bolt.Tx) error) error {
	return s.guard(func() error { return s.wrap(s.db.Update(write)) })
}

func (s *Store) view(read func(*bolt.Tx) error) error {
	return s.guard(func() error { return s.wrap(s.db.View(read)) })
}

// isImpossibleOffset reports whether a write failed because no file has such an offset: the page's number came from a
// damaged list of free pages. Linux answers EFBIG or EINVAL, and Go refuses a negative offset. (A file that becomes too
// large for its file system fails earlier, when it grows.)
func isImpossibleOffset(err error) bool {
	var write *fs.PathError
	return errors.As(err, &write) && (write.Op == "writeat" ||
		write.Op == "write" && (errors.Is(err, syscall.EFBIG) || errors.Is(err, syscall.EINVAL)))
}
