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
	"github.com/weirproxy/weir/descriptors"
)

// layout is the version of how rows become batches. A file whose rows would become other batches must be another writer.
const layout = "weir import 2\n"

// maxTold is how many mistakes of a file, and how many of its paths, are told one by one.
const maxTold = 10

// Mistakes is the error of a file of which nothing was counted.
type Mistakes struct {
	first []error // at most ten, by their lines
	more  int     // that are not among them
}

// Error has a line for each of the first ten, and tells how many more there are.
func (m *Mistakes) Error() string {
	if len(m.first) == 1 {
		return m.first[0].Error()
	}
	text := fmt.Sprintf("nothing was counted, as it has %d mistakes:", len(m.first)+m.more)
	for _, err := range m.first {
		text += "\n  " + err.Error()
	}
	if m.more > 0 {
		text += fmt.Sprintf("\n  and %d more", m.more)
	}
	return text
}

// Import counts the rows of a file, once: the writer is named by what the file holds. All rows are checked before the
// first is counted; its error then is [*Mistakes]. Progress, if not nil, is called after each row.
func Import(ctx context.Context, file io.ReadSeeker, to Target, progress func(Loaded)) (Loaded, error) {
	in := input{file: file, now: to.Now(), retention: to.Retention, paths: make(map[string]string)}
	sum, err := in.check(ctx)
	if err != nil {
		return Loaded{}, err
	}
	l := NewLoader(ctx, to, "import-"+hex.EncodeToString(sum[:16]))
	read, err := in.each(ctx, func(r Row, err error) error {
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

// input is a file that is read twice, at one moment.
type input struct {
	file      io.ReadSeeker
	now       time.Time
	retention time.Duration
	paths     map[string]string // of the first that are not as weir stores them: what they are counted as
	told      []string          // a sentence for each of these
	expired   uint64            // rows that the store drops at once
}

// check returns what names the file, if all its rows are sound.
func (in *input) check(ctx context.Context) ([sha256.Size]byte, error) {
	rows := 0
	var wrong Mistakes
	add := func(err error) {
		if len(wrong.first) == maxTold {
			wrong.more++
			return
		}
		wrong.first = append(wrong.first, err)
	}
	sum, err := in.each(ctx, func(r Row, err error) error {
		rows++
		if err != nil {
			add(err)
		} else if in.isExpired(&r, 0) {
			in.expired++
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
	case len(wrong.first) > 0:
		if err != nil {
			add(err)
		}
		err = &wrong
	case err == nil && rows == 0:
		err = errors.New("it has no rows")
	}
	return sum, err
}

// each calls visit with each row, or with the [Mistake] in its place, and returns a hash of all bytes.
func (in *input) each(ctx context.Context, visit func(Row, error) error) (sum [sha256.Size]byte, err error) {
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
		// The store drops a row that is older than the retention at once, and knows its file from then on. One that has become
		// so old since it was exported, or since a first run, is counted: its file could not be finished.
		if err == nil && in.isExpired(&row, history.ForgetAfter) {
			err = r.mistake(wrong("start", "%s is older than HISTORY_RETENTION, %v: set that higher here and in weir serve, "+
				"or leave it out", moment(row.Start), in.retention))
		}
		if err == nil {
			row.ID.Path = in.storedPath(row.ID.Path)
		}
		if err == nil || errors.As(err, new(Mistake)) {
			err = visit(row, err)
		}
		if err != nil {
			return sum, err
		}
	}
	return sum, context.Cause(ctx)
}

// isExpired reports whether the day of a row was to be dropped some time ago.
func (in *input) isExpired(r *Row, ago time.Duration) bool {
	dropped := r.Start - r.Start%day + day + int64(in.retention/time.Second)
	return in.retention > 0 && dropped <= in.now.Add(-ago).Unix()
}

// storedPath returns the path that a row means, as rules are counted by. What cannot be read is kept as it stands.
func (in *input) storedPath(text string) string {
	if path, known := in.paths[text]; known {
		return path
	}
	path, err := descriptors.StoredPath(text)
	if err == nil && len(path) > maxName {
		err = fmt.Errorf("it has more than %d bytes as it is stored", maxName)
	}
	sentence := fmt.Sprintf("path %s is counted as %s, as weir stores it", descriptors.Quoted(text), descriptors.Quoted(path))
	switch {
	case err != nil:
		path, sentence = text, fmt.Sprintf("path %s is counted as it stands: %v", descriptors.Quoted(text), err)
	case path == text:
		return text
	}
	if len(in.told) < maxTold {
		in.paths[text], in.told = path, append(in.told, sentence)
	} else if len(in.told) == maxTold {
		in.told = append(in.told, "and more paths")
	}
	return path
}

// warnings returns what is to be told of rows that were counted.
func (in *input) warnings() []string {
	if in.expired == 0 {
		return in.told
	}
	return append(in.told, fmt.Sprintf("%d rows have become older than HISTORY_RETENTION, %v: their hits are in what their "+
		"rules have counted for ever, and in no curve", in.expired, in.retention))
}
