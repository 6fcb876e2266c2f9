package filehistory

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openMemory makes a file in memory. It needs no writable directory.
func openMemory(name string, _ int, _ os.FileMode) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, &fs.PathError{Op: "memfd_create", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
