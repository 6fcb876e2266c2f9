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

// Reader reads rows of CSV, whose first line names the columns in any order; value and peak may be missing. It takes no
// more memory than a row has, however large what is read is.
type Reader struct {
	now       time.Time
	retention time.Duration
	in        *bounded
	csv       *csv.Reader
	columns   []string // as the first line names them
	line      int      // of the row that was read last
}

// NewReader reads the names of the columns. Rows are checked as [Row.Check] does.
func NewReader(r io.Reader, now time.Time, retention time.Duration) (*Reader, error) {
	start := bufio.NewReader(r)
	if mark, _ := start.Peek(3); string(mark) == "\uFEFF" {
		_, _ = start.Discard(3) // Excel begins so
	}
	in := &bounded{r: start, left: maxLine}
	reader := &Reader{now: now, retention: retention, in: in, csv: csv.NewReader(in), line: 1}
	reader.csv.ReuseRecord = true
	first, err := reader.csv.Read()
	if err == io.EOF {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: its first line names the columns, %s", err, strings.Join(columns, ","))
	}
	for i, name := range first {
		column := strings.ToLower(strings.TrimSpace(name))
		if !slices.Contains(columns, column) || slices.Contains(reader.columns, column) {
			return nil, fmt.Errorf("line 1: column %d is named %.40q, which is unknown or comes twice: the columns are %s",
				i+1, name, strings.Join(columns, ", "))
		}
		reader.columns = append(reader.columns, column)
	}
	for _, column := range columns {
		if column != "value" && column != "peak" && !slices.Contains(reader.columns, column) {
			return nil, fmt.Errorf("line 1: there is no column %s: the columns are %s, of which value and peak may be missing",
				column, strings.Join(columns, ", "))
		}
	}
	return reader, nil
}

// Next returns the next row. Its errors are io.EOF, or name the line at fault and, if it is one, the column.
func (r *Reader) Next() (row Row, err error) {
	r.in.left = maxLine
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
	if row, err = r.parse(record); err == nil {
		err = row.Check(r.now, r.retention)
	}
	if err != nil {
		return row, fmt.Errorf("line %d: %w", r.line, err)
	}
	return row, nil
}

// parse reads the columns of a row. Its error is about the first that cannot be read.
func (r *Reader) parse(record []string) (Row, error) {
	text := func(column string) string {
		if i := slices.Index(r.columns, column); i >= 0 {
			return record[i]
		}
		return ""
	}
	outcome, err := history.ParseOutcome(text("outcome"))
	if err != nil {
		err = wrong("outcome", "%w", err)
	}
	number := func(column string) uint64 {
		n, failed := strconv.ParseUint(text(column), 10, 64)
		if failed != nil && err == nil {
			err = wrong(column, "%.40q is not a whole number from 0", text(column))
		}
		return n
	}
	row := Row{ID: history.ID{Domain: text("domain"), Path: text("path"), Outcome: outcome, Value: text("value")},
		Start: int64(min(number("start"), 1<<62)), Width: int64(min(number("width"), 1<<62)), Sum: number("sum")}
	if text("peak") != "" {
		row.Peak = number("peak")
	}
	return row, err
}

// bounded ends with an error where a row takes more than it may: a quote that is never closed would take all memory.
type bounded struct {
	r    io.Reader
	left int
	last byte // that was read
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("a row has more than %d bytes: is a quote not closed?", maxLine)
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	if b.left -= n; n > 0 {
		b.last = p[n-1]
	}
	return n, err
}
