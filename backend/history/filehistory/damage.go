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

// guard runs an operation on the database, and turns panics into errors: bbolt panics at a damaged page, and reading
// beyond the end of a file that was cut off is a memory fault. Neither may end the process, as the limiter runs in it.
// Bbolt's locks may then be held forever, so guard runs no more operations.
func (s *Store) guard(operation func() error) (err error) {
	if damage := s.damaged.Load(); damage != nil {
		return *damage
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

// withLock runs do with the write lock, unless ctx has ended by then. Goroutines get the lock about in the order in
// which they wait, so that a job of many transactions does not block others.
func (s *Store) withLock(ctx context.Context, do func() error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if ctx.Err() != nil {
		return s.wrap(ctx.Err())
	}
	return do()
}

// update runs a read-write transaction. The caller holds the write lock.
func (s *Store) update(write func(*bolt.Tx) error) error {
	return s.guard(func() error { return s.wrap(s.db.Update(write)) })
}

func (s *Store) view(read func(*bolt.Tx) error) error {
	return s.guard(func() error { return s.wrap(s.db.View(read)) })
}

// isImpossibleOffset reports whether a write failed because its offset is impossible, as the page number came from a
// damaged list of free pages. Linux answers EFBIG or EINVAL, and Go refuses a negative offset. (A file that becomes too
// large for its file system fails earlier, when it grows.)
func isImpossibleOffset(err error) bool {
	var write *fs.PathError
	return errors.As(err, &write) && (write.Op == "writeat" ||
		write.Op == "write" && (errors.Is(err, syscall.EFBIG) || errors.Is(err, syscall.EINVAL)))
}
