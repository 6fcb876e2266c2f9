package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// batching is the version of how rows become batches. It is in the hash that names the writer: other batches of the same
// file must be another writer's.
const batching = "weir import 3\n"

// Import counts the rows of a CSV file, once: the writer is named by what the file holds. All rows are checked before the
// first is counted. A file that no run has begun must have no row that looks counted, unless to says otherwise.
func Import(ctx context.Context, file io.ReadSeeker, to Target) (Loaded, error) {
	now, all := to.Now(), content{ids: make(map[history.ID]bool), from: math.MaxInt64}
	if err := checkLastLine(file); err != nil {
		return Loaded{}, fmt.Errorf("nothing was counted: %w", err)
	}
	hash, err := readFile(file, &to, now, func(r Row) error {
		all.add(&r)
		return context.Cause(ctx)
	})
	if err == nil && all.Rows == 0 {
		err = errors.New("it has no rows")
	}
	writer := "import-" + hex.EncodeToString(hash[:16])
	if err == nil {
		all.Begun, err = begun(ctx, to.Store, writer, all.ids)
	}
	if err == nil && !all.Begun {
		err = all.compare(ctx, file, &to, now)
	}
	if err == nil && all.Alike > 0 && !to.Add && !to.DryRun {
		err = fmt.Errorf("%d of its %d rows %w", all.Alike, all.Rows, errAlike)
	}
	if err != nil {
		return Loaded{}, fmt.Errorf("nothing was counted: %w", err)
	}
	if to.DryRun {
		return all.Loaded, nil
	}
	l := NewLoader(ctx, to, writer)
	l.loaded.Begun, l.loaded.Alike = all.Begun, all.Alike
	rehash, err := readFile(file, &to, now, func(r Row) error {
		if to.Progress != nil {
			to.Progress(l.loaded.Rows, all.Rows)
		}
		return l.Add(r)
	})
	if err == nil && rehash != hash {
		err = errors.New("the file was changed while it was read: some of what it held has been counted; " +
			"give it what it held before, and run this again")
	}
	if err != nil {
		return l.loaded, err
	}
	return l.Close()
}

// errAlike is the error of a file that may have been counted by another name, as part of another file or a week ago.
var errAlike = errors.New("look counted, as the history holds as many hits there; take --add if these are other hits, such as " +
	"those of another weir")

// content is what a file holds.
type content struct {
	Loaded
	ids      map[history.ID]bool
	from, to int64 // Unix seconds
}

func (c *content) add(r *Row) {
	c.Rows++
	c.Hits += distinctHits(r.ID, r.Sum)
	c.ids[r.ID] = true
	c.from, c.to = min(c.from, r.Start), max(c.to, r.Start+r.Width)
}

// begun reports whether a writer has written any of some series.
func begun(ctx context.Context, store history.Store, writer string, ids map[history.ID]bool) (bool, error) {
	var asked [history.Partitions]bool
	for id := range ids {
		if p := id.Partition(); !asked[p] {
			asked[p] = true
			if r, err := store.Apply(ctx, p, history.Batch{Writer: writer}); err != nil || r.Last > 0 {
				return err == nil, err
			}
		}
	}
	return false, nil
}

// compare counts the rows in whose time the store holds as many hits of their series, or more.
func (c *content) compare(ctx context.Context, file io.ReadSeeker, to *Target, now time.Time) error {
	held := make(map[history.ID][]history.Point)
	err := to.Store.Query(ctx, history.Query{From: c.from, To: c.to}, func(s history.Series) error {
		if c.ids[s.ID] {
			held[s.ID] = s.Points
		}
		return nil
	})
	if err != nil || len(held) == 0 {
		return err
	}
	_, err = readFile(file, to, now, func(r Row) error {
		points, hits := held[r.ID], uint64(0)
		first := sort.Search(len(points), func(i int) bool { return points[i].End() > r.Start })
		for _, p := range points[first:] {
			if p.Start >= r.Start+r.Width {
				break
			}
			hits += p.Sum
		}
		if hits >= r.Sum {
			c.Alike++
		}
		return context.Cause(ctx)
	})
	return err
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
