// Package regular reads the small regular files that settings name: tokens, passwords, URLs, certificates, mappings.
package regular

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// MaxSize bounds the size of a file, in bytes.
const MaxSize = 1 << 20

// ReadFile reads a regular file of at most MaxSize. It does not block on a FIFO without a writer.
func ReadFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var content []byte
	if info.Mode().IsRegular() {
		content, err = io.ReadAll(io.LimitReader(f, MaxSize+1))
	}
	if !info.Mode().IsRegular() || len(content) > MaxSize {
		return nil, fmt.Errorf("%s is not a regular file of %d MiB at most", name, MaxSize>>20)
	}
	return content, err
}
