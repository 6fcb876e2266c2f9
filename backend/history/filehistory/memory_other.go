//go:build !linux

package filehistory

import (
	"errors"
	"os"
)

// openMemory makes an unlinked temporary file, which ends with its process.
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
