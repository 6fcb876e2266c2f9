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

// inTurn does something when it is its turn, unless ctx has ended by then. Turns are taken about in the order in which they
// were asked for, so that a job of many transactions does not keep others out.
func (s *Store) inTurn(ctx context.Context, do func() error) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if ctx.Err() != nil {
		return s.wrap(ctx.Err())
	}
	return do()
}

// update runs a transaction that writes. The caller holds the turn.
func (s *Store) update(write func(*bolt.Tx) error) error {
	return s.guard(func() error { return s.wrap(s.db.Update(write)) })
}

func (s *Store) view(read func(*bolt.Tx) error) error {
	return s.guard(func() error { return s.wrap(s.db.View(read)) })
}

// isImpossibleOffset reports whether a page was to be written where no file can have one: its number came from a damaged
// list of free pages. Linux answers EFBIG or EINVAL to such an offset, and Go refuses one below zero itself. (A file that
// has become too large for its file system fails before, when it is to grow.)
func isImpossibleOffset(err error) bool {
	var write *fs.PathError
	return errors.As(err, &write) && (write.Op == "writeat" ||
		write.Op == "write" && (errors.Is(err, syscall.EFBIG) || errors.Is(err, syscall.EINVAL)))
}
