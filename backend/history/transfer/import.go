package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"
)

// batching is the version of how rows become batches. It is in the hash that names the writer: other batches of the same
// file must be another writer's.
const batching = "weir import 3\n"

// Import counts the rows of a CSV file, once: the writer is named by what the file holds. All rows are checked before the
// first is counted.
func Import(ctx context.Context, file io.ReadSeeker, to Target) (Loaded, error) {
	now, rows := to.Now(), 0
	if err := checkLastLine(file); err != nil {
		return Loaded{}, fmt.Errorf("nothing was counted: %w", err)
	}
	hash, err := readFile(file, &to, now, func(Row) error {
		rows++
		return context.Cause(ctx)
	})
	if err == nil && rows == 0 {
		err = errors.New("it has no rows")
	}
	if err != nil {
		return Loaded{}, fmt.Errorf("nothing was counted: %w", err)
	}
	l := NewLoader(ctx, to, "import-"+hex.EncodeToString(hash[:16]))
	rehash, err := readFile(file, &to, now, l.Add)
	if err == nil && rehash != hash {
		err = errors.New("the file was changed while it was read: some of what it held has been counted; " +
			"give it what it held before, and run this again")
	}
	if err != nil {
		return l.loaded, err
	}
	return l.Close()
}

// checkLastLine returns an error for a file whose last line has no end.
func checkLastLine(file io.ReadSeeker) error {
	var last [1]byte
	_, err := file.Seek(-1, io.SeekEnd)
	if err != nil {
		return errors.New("it is empty")
	}
	if _, err = io.ReadFull(file, last[:]); err == nil && last[0] != '\n' {
		err = errors.New("the last line has no end, so the file may have been cut off; if it is whole, add a newline")
	}
	return err
}

// readFile calls visit with each row of a file, and returns a hash of all bytes. Errors about a row name its line.
func readFile(file io.ReadSeeker, to *Target, now time.Time, visit func(Row) error) (hash [sha256.Size]byte, err error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return hash, fmt.Errorf("reading it again: %w", err)
	}
	hasher := sha256.New()
	hasher.Write([]byte(batching))
	err = readRows(io.TeeReader(file, hasher), now, to.Retention, visit)
	return [sha256.Size]byte(hasher.Sum(nil)), err
}
