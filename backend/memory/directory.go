package memory

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockDirectory makes the directory if it is missing, for this user alone, and proves that it can be written. Keys hold
// values of descriptors. One that is there stays as it is: it may be a volume's, or shared with others. The lock, while
// the file is open, keeps a second process out, which would overwrite the counters.
func lockDirectory(path string) (*os.File, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	_ = f.Chmod(0o600) // with one that was there others could keep weir out; another owner's stays as it is
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = fmt.Errorf("data directory %s is in use by another process, or cannot be locked: %w", path, err)
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// syncDirectory makes a rename in a directory outlast a power failure.
func syncDirectory(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
