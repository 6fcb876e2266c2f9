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

// batchVersion is the version of the way in which rows become batches. It is a part of the hash that names the writer,
// as different batches of the same file need different writers.
const batchVersion = "weir import 3\n"

// Import counts the rows of a CSV file once, as a hash of the content names the writer. It checks all rows before it
// counts the first one. Unless to.Add is set or an earlier run has begun the file, it returns an error if a row looks
// counted.
func Import(ctx context.Context, file io.ReadSeeker, to Target) (LoadResult, error) {
	now, all := to.Now(), LoadResult{}
	from, until := int64(math.MaxInt64), int64(0)
	err := checkLastLine(file)
	var hash [sha256.Size]byte
	if err == nil {
		hash, err = readFile(file, &to, now, func(r Row) error {
			all.Rows++
			all.Hits += distinctHits(r.ID, r.Sum)
			from, until = min(from, r.Start), max(until, r.Start+r.Width)
			return context.Cause(ctx)
		})
	}
	if err == nil && all.Rows == 0 {
		err = errors.New("it has no rows")
	}
	writer := "import-" + hex.EncodeToString(hash[:16])
	if err == nil {
		all.LookCounted, all.Resumed, err = countAlike(ctx, file, &to, writer, history.Query{From: from, To: until})
	}
	if err == nil && all.LookCounted > 0 && !to.Add {
		err = fmt.Errorf("%d of its %d rows %w", all.LookCounted, all.Rows, errAlike)
	}
	if err != nil {
		return LoadResult{}, fmt.Errorf("nothing was counted: %w", err)
	}
	if to.DryRun {
		return all, nil
	}
	if to.Done != nil {
		to.All.Store(int64(all.Rows))
	}
	l := NewLoader(ctx, to, writer)
	l.loaded.LookCounted = all.LookCounted
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

// errAlike is the error of a file whose rows may have been counted as part of another file, or more than
// history.WriterTTL ago.
var errAlike = errors.New("look counted, as the history holds as many hits there; count what came later by " +
	"weir history export --from '<time>' of the end of the last, or take --add if these are other hits, such as those of another weir")

// countAlike returns the number of rows of which the store already has as many hits or more. If an earlier run has
// begun the file, it returns 0 and true.
func countAlike(ctx context.Context, file io.ReadSeeker, to *Target, writer string, all history.Query) (alike uint64, begun bool, err error) {
	for p := range history.Partitions {
		r, err := to.Store.Apply(ctx, history.Partition(p), history.Batch{Writer: writer})
		if err != nil || r.Last > 0 {
			return 0, err == nil, err
		}
	}
	stored := make(map[history.ID][]history.Point)
	err = to.Store.Query(ctx, all, func(s history.Series) error {
		stored[s.ID] = s.Points
		return nil
	})
	if err != nil || len(stored) == 0 {
		return 0, false, err
	}
	_, err = readFile(file, to, to.Now(), func(r Row) error {
		points, hits := stored[r.ID], uint64(0)
		next := sort.Search(len(points), func(i int) bool { return points[i].End() > r.Start })
		for ; next < len(points) && points[next].Start < r.Start+r.Width; next++ {
			hits += points[next].Sum
		}
		if hits >= r.Sum {
			alike++
		}
		return context.Cause(ctx)
	})
	return alike, false, err
}

// checkLastLine returns an error if the last line of a file does not end with a newline.
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

// readFile calls visit with each row of a file, and returns a hash of the content. Errors about a row name its line.
func readFile(file io.ReadSeeker, to *Target, now time.Time, visit func(Row) error) (hash [sha256.Size]byte, err error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return hash, fmt.Errorf("reading it again: %w", err)
	}
	hasher := sha256.New()
	hasher.Write([]byte(batchVersion))
	err = readRows(io.TeeReader(file, hasher), now, to.Retention, visit)
	return [sha256.Size]byte(hasher.Sum(nil)), err
}
