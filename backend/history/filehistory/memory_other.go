//go:build !linux

package filehistory

import (
	"errors"
	"os"
)

// openMemory makes a file that nobody finds and that is gone with its process. It lies with the temporary files.
func openMemory(name string, _ int, _ os.FileMode) (*os.File, error) {
	f, err := os.CreateTemp("", name)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
