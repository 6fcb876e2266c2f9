package regular

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestOnlySmallRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	fifo, exact, long := filepath.Join(dir, "fifo"), filepath.Join(dir, "exact"), filepath.Join(dir, "long")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{exact: MaxSize, long: MaxSize + 1} {
		if err := os.WriteFile(name, bytes.Repeat([]byte("a"), size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if content, err := ReadFile(exact); err != nil || len(content) != MaxSize {
		t.Errorf("of a file of %d bytes %d are read, %v", MaxSize, len(content), err)
	}
	for _, name := range []string{fifo, long, dir, "/dev/zero"} {
		if content, err := ReadFile(name); err == nil {
			t.Errorf("%s: %d bytes are read, want an error: a setting is a small file", name, len(content))
		}
	}
	if _, err := ReadFile(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v, want fs.ErrNotExist, by which callers tell it", err)
	}
}
