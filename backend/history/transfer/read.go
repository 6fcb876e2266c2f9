package transfer

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// maxLine is about how long a row may be, in bytes.
const maxLine = 256 << 10

// Reader reads rows of CSV as an export writes them. It takes no more memory than a row has, however large what is read is.
type Reader struct {
	now       time.Time
	retention time.Duration
	in        *boundedReader
	csv       *csv.Reader
	line      int // of the row that was read last
}

// NewReader reads the names of the columns. Rows are checked as [Row.Check] does.
func NewReader(r io.Reader, now time.Time, retention time.Duration) (*Reader, error) {
	start := bufio.NewReader(r)
	if mark, _ := start.Peek(3); string(mark) == "\uFEFF" {
		_, _ = start.Discard(3) // Excel begins so
	}
	in := &boundedReader{r: start, remaining: maxLine}
	reader := &Reader{now: now, retention: retention, in: in, csv: csv.NewReader(in), line: 1}
	reader.csv.ReuseRecord = true
	first, err := reader.csv.Read()
	switch {
	case err == io.EOF:
		err = errors.New("it is empty")
	case err == nil && !slices.Equal(first, columns):
		err = fmt.Errorf("line 1 is %.200q", strings.Join(first, ","))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: it must name the columns, %s", err, strings.Join(columns, ","))
	}
	return reader, nil
}

// Next returns the next row. Its errors are io.EOF, or name the line at fault and, if it is one, the column.
func (r *Reader) Next() (row Row, err error) {
	r.in.remaining = maxLine
	record, err := r.csv.Read()
	var syntax *csv.ParseError
	switch {
	case errors.As(err, &syntax):
		return row, err // which names the line
	case err == io.EOF && r.in.last != '\n':
		return row, fmt.Errorf("after line %d: the last line has no end, so the file may have been cut off; if it is whole, "+
			"add a newline", r.line)
	case err == io.EOF:
		return row, err
	case err != nil:
		return row, fmt.Errorf("after line %d: %w", r.line, err)
	}
	r.line, _ = r.csv.FieldPos(0)
	if row, err = parse(record); err == nil {
		err = row.Check(r.now, r.retention)
	}
	if err != nil {
		return row, fmt.Errorf("line %d: %w", r.line, err)
	}
	return row, nil
}

// parse reads the columns of a row. Its error is about the first that cannot be read.
func parse(record []string) (row Row, err error) {
	if row.ID.Outcome, err = history.ParseOutcome(record[2]); err != nil {
		return row, columnError("outcome", "%w", err)
	}
	row.ID.Domain, row.ID.Path, row.ID.Value = record[0], record[1], record[3]
	var numbers [4]uint64
	for i, text := range record[4:] {
		if text == "" && columns[4+i] == "peak" {
			continue
		}
		if numbers[i], err = strconv.ParseUint(text, 10, 64); err != nil {
			return row, columnError(columns[4+i], "%.40q is not a whole number from 0", text)
		}
	}
	row.Start, row.Width = int64(min(numbers[0], 1<<62)), int64(min(numbers[1], 1<<62))
	row.Sum, row.Peak = numbers[2], numbers[3]
	return row, nil
}

// boundedReader ends with an error where a row takes more than it may: a quote that is never closed would take all memory.
type boundedReader struct {
	r         io.Reader
	remaining int  // bytes of the row
	last      byte // that was read
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.remaining <= 0 {
		return 0, fmt.Errorf("a row has more than %d bytes: is a quote not closed?", maxLine)
	}
	n, err := b.r.Read(p[:min(len(p), b.remaining)])
	if b.remaining -= n; n > 0 {
		b.last = p[n-1]
	}
	return n, err
}
