package transfer

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirproxy/weir/backend/history"
)

// maxLine is how long a row may be, in bytes.
const maxLine = 256 << 10

// Reader reads rows of CSV, whose first line names the columns in any order, or lines of JSON, which begin with {. Of
// the columns, value and peak may be missing. It takes no more memory than a row has, however large what is read is.
type Reader struct {
	now  time.Time
	line int // of the row that was read last
	next func() (cells, error)
}

// cells are the texts of a row, by column. A column that is missing has none.
type cells map[string]string

// NewReader reads the beginning, to find out which of both it is. Rows may not begin after now.
func NewReader(r io.Reader, now time.Time) (*Reader, error) {
	in := bufio.NewReaderSize(r, maxLine)
	if mark, _ := in.Peek(3); bytes.Equal(mark, []byte("\uFEFF")) {
		_, _ = in.Discard(3) // Excel begins so
	}
	reader := &Reader{now: now}
	if first, _ := in.Peek(1); bytes.Equal(first, []byte("{")) {
		reader.next = func() (cells, error) { return reader.readJSON(in) }
		return reader, nil
	}
	return reader, reader.beginCSV(in)
}

// Next returns the next row. Its errors are io.EOF, or name the line at fault and, if it is one, the column. After a
// [Mistake] it can be called again.
func (r *Reader) Next() (Row, error) {
	texts, err := r.next()
	if err == io.EOF {
		return Row{}, err
	}
	if err != nil && !errors.As(err, new(*Mistake)) {
		return Row{}, fmt.Errorf("line %d: %w", r.line, err)
	}
	var row Row
	if err == nil {
		row, err = texts.row()
	}
	if err == nil {
		err = row.Check(r.now)
	}
	if err != nil {
		return Row{}, &Mistake{fmt.Errorf("line %d: %w", r.line, err)}
	}
	return row, nil
}

// row reads the texts of a row.
func (c cells) row() (r Row, err error) {
	r.ID = history.ID{Domain: c["domain"], Path: c["path"], Value: c["value"]}
	if r.ID.Outcome, err = history.ParseOutcome(c["outcome"]); err != nil {
		return r, wrong("outcome", "%v", err)
	}
	start, err := c.number("start")
	if err != nil {
		return r, err
	}
	width, err := c.number("width")
	if err != nil {
		return r, err
	}
	r.Start, r.Width = int64(min(start, 1<<62)), int64(min(width, 1<<62))
	if r.Sum, err = c.number("sum"); err == nil && c["peak"] != "" {
		r.Peak, err = c.number("peak")
	}
	return r, err
}

func (c cells) number(column string) (uint64, error) {
	n, err := strconv.ParseUint(c[column], 10, 64)
	if err != nil {
		text := c[column]
		if len(text) > 40 {
			text = text[:40] + "..."
		}
		return 0, wrong(column, "%q is not a whole number from 0", text)
	}
	return n, nil
}

// bounded ends with an error where a record takes more than it may: a quote that is never closed would take all memory.
type bounded struct {
	r    io.Reader
	left int
	last byte // that was read
}

var errLong = fmt.Errorf("a row has more than %d bytes: is a quote not closed?", maxLine)

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLong
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	if n > 0 {
		b.last = p[n-1]
	}
	return n, err
}

// beginCSV reads the names of the columns.
func (r *Reader) beginCSV(in *bufio.Reader) error {
	limit := &bounded{r: in, left: 2 * maxLine}
	records := csv.NewReader(limit)
	records.ReuseRecord = true
	first, err := records.Read()
	if err != nil {
		return csvFault(err, "it is empty: its first line names the columns, "+strings.Join(columns, ","))
	}
	names := slices.Clone(first)
	for i, name := range names {
		if names[i] = strings.ToLower(strings.TrimSpace(name)); !slices.Contains(columns, names[i]) || slices.Contains(names[:i], names[i]) {
			return fmt.Errorf("line 1: column %d is named %.40q, which is unknown or comes twice: the columns are %s", i+1, name,
				strings.Join(columns, ", "))
		}
	}
	for _, column := range columns {
		if column != "value" && column != "peak" && !slices.Contains(names, column) {
			return fmt.Errorf("line 1: there is no column %s: the columns are %s, of which value and peak may be missing", column,
				strings.Join(columns, ", "))
		}
	}
	texts := make(cells, len(names))
	after := behind(records, first) // the line that the next record begins on, unless lines are empty
	r.next = func() (cells, error) {
		limit.left = 2 * maxLine
		record, err := records.Read()
		if err == io.EOF && limit.last != '\n' {
			return nil, errors.New("the last line has no end, so the file may have been cut off; if it is whole, add a newline")
		}
		var at *csv.ParseError
		switch {
		case errors.As(err, &at):
			r.line, after = at.StartLine, at.Line+1
		case err == nil:
			r.line, _ = records.FieldPos(0)
		default:
			r.line = after
		}
		if len(record) > 0 && (err == nil || errors.Is(err, csv.ErrFieldCount)) {
			after = behind(records, record)
		}
		if errors.Is(err, csv.ErrFieldCount) {
			return nil, mistake("it has %d columns, and the first line has %d", len(record), len(names))
		}
		if err != nil {
			return nil, csvFault(err, "")
		}
		for i, name := range names {
			texts[name] = record[i]
		}
		return texts, nil
	}
	return nil
}

// behind returns the line behind a record that was just read.
func behind(records *csv.Reader, record []string) int {
	last := len(record) - 1
	line, _ := records.FieldPos(last)
	return line + strings.Count(record[last], "\n") + 1
}

// csvFault returns an error of a record of CSV, without the line that it begins on, which the caller adds.
func csvFault(err error, empty string) error {
	var at *csv.ParseError
	switch {
	case err == io.EOF && empty != "":
		return errors.New(empty)
	case errors.As(err, &at) && errors.Is(err, csv.ErrQuote):
		return mistake("a quote is not closed, or stands inside a text: at line %d, byte %d", at.Line, at.Column)
	case errors.As(err, &at) && errors.Is(err, csv.ErrBareQuote):
		return mistake("a text with a quote in it does not begin with one: at line %d, byte %d", at.Line, at.Column)
	case errors.As(err, &at):
		return mistake("at line %d, byte %d: %w", at.Line, at.Column, at.Err)
	}
	return err
}

// object is a row of JSON before it is understood.
type object struct {
	Domain, Path, Outcome, Value *string
	Start, Width, Sum, Peak      *json.Number
}

// readJSON reads the next line that is not empty.
func (r *Reader) readJSON(in *bufio.Reader) (cells, error) {
	var text []byte
	for len(text) == 0 {
		r.line++
		slice, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, errLong
		}
		if text = bytes.TrimSpace(slice); len(text) == 0 && err != nil {
			return nil, err
		}
	}
	if !utf8.Valid(text) {
		return nil, mistake("it is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var o object
	err := decoder.Decode(&o)
	var badType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &badType):
		return nil, mistake("column %s: it is a JSON %s: names are strings, the others whole numbers",
			strings.ToLower(badType.Field), badType.Value)
	case err != nil:
		return nil, mistake("it is not an object of %s: %w", strings.Join(columns, ", "), err)
	case decoder.InputOffset() != int64(len(text)):
		return nil, mistake("something follows the object: a line has one")
	}
	texts := make(cells, len(columns))
	for name, text := range map[string]*string{"domain": o.Domain, "path": o.Path, "outcome": o.Outcome, "value": o.Value,
		"start": (*string)(o.Start), "width": (*string)(o.Width), "sum": (*string)(o.Sum), "peak": (*string)(o.Peak)} {
		if text != nil {
			texts[name] = *text
		}
	}
	return texts, nil
}
