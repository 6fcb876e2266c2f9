package transfer

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// layout is the version of how rows become batches. A file whose rows would become other batches must be another writer.
const layout = "weir import 1\n"

// Import lays the rows of a file down, once: the writer is named by what the file holds. All rows are checked
// before the first is laid down; its error then is [*Mistakes]. Progress, if not nil, is called after each row.
func Import(ctx context.Context, file io.ReadSeeker, to Target, progress func(Loaded)) (Loaded, error) {
	in := reading{file: file, now: to.Now(), retention: to.Retention}
	sum, err := in.check(ctx)
	if err != nil {
		return Loaded{}, err
	}
	l := NewLoader(ctx, to, "import-"+hex.EncodeToString(sum[:16]))
	read, err := in.scan(ctx, func(r Row, err error) error {
		if err == nil {
			err = l.Add(r)
		}
		if progress != nil {
			progress(l.Did())
		}
		return err
	})
	if err == nil && read != sum {
		err = errors.New("the file was changed while it was read: some of what it held has been counted; " +
			"give it what it held before, and run this again")
	}
	did, err := l.Close(err)
	did.Warnings = in.warnings()
	return did, err
}

// reading is a file that is read twice, at one moment.
type reading struct {
	file      io.ReadSeeker
	now       time.Time
	retention time.Duration
	paths     paths
	gone      struct{ rows, hits uint64 } // that the store drops at once
}

// expired reports whether the day of a row was to be dropped some time ago.
func (in *reading) expired(r *Row, ago time.Duration) bool {
	dropped := r.Start - r.Start%day + day + int64(in.retention/time.Second)
	return in.retention > 0 && dropped <= in.now.Add(-ago).Unix()
}

// old returns the error of a row that the store would drop at once. It would know the file, so that the row could not be
// counted later on. Rows that have become so old since they were exported, or since a first run, are not refused: a file
// could not be finished.
func (in *reading) old(r *Row) error {
	return wrong("start", "%s is older than HISTORY_RETENTION, %v: set that higher here and in weir serve, or leave it out", moment(r.Start), in.retention)
}

// expect counts what the store will drop.
func (in *reading) expect(r *Row) {
	if !in.expired(r, 0) {
		return
	}
	in.gone.rows++
	if !r.ID.Outcome.IsPart() {
		in.gone.hits += r.Sum
	}
}

// warnings returns what is to be told of rows that were counted.
func (in *reading) warnings() []string {
	told := in.paths.warnings()
	if in.gone.rows > 0 {
		told = append(told, fmt.Sprintf("%d rows with %d hits have become older than HISTORY_RETENTION, %v: they are in what their "+
			"rules have counted for ever, and in no curve", in.gone.rows, in.gone.hits, in.retention))
	}
	return told
}

// check returns what names the file, if all its rows are sound.
func (in *reading) check(ctx context.Context) ([sha256.Size]byte, error) {
	rows := 0
	var wrong Mistakes
	sum, err := in.scan(ctx, func(r Row, err error) error {
		rows++
		if err != nil {
			wrong.add(err)
		} else {
			in.expect(&r)
		}
		return nil
	})
	switch {
	case err != nil && len(wrong.First) > 0 && ctx.Err() == nil:
		wrong.add(err)
		err = wrong.err()
	case err == nil && rows == 0:
		err = errors.New("it has no rows")
	case err == nil:
		err = wrong.err()
	}
	return sum, err
}

// scan calls visit with each row, or with the [Mistake] in its place, and returns a hash of all bytes.
func (in *reading) scan(ctx context.Context, visit func(Row, error) error) (sum [sha256.Size]byte, err error) {
	if _, err := in.file.Seek(0, io.SeekStart); err != nil {
		return sum, fmt.Errorf("reading it again: %w", err)
	}
	hash := sha256.New()
	hash.Write([]byte(layout))
	r, err := NewReader(bufio.NewReaderSize(io.TeeReader(in.file, hash), 64<<10), in.now)
	if err != nil {
		return sum, err
	}
	for ctx.Err() == nil {
		row, err := r.Next()
		if err == io.EOF {
			return [sha256.Size]byte(hash.Sum(nil)), nil
		}
		if err == nil && in.expired(&row, history.ForgetAfter) {
			err = &Mistake{fmt.Errorf("line %d: %w", r.line, in.old(&row))}
		}
		if err == nil {
			row.ID.Path = in.paths.stored(row.ID.Path)
		}
		if err == nil || errors.As(err, new(*Mistake)) {
			err = visit(row, err)
		}
		if err != nil {
			return sum, err
		}
	}
	return sum, context.Cause(ctx)
}
