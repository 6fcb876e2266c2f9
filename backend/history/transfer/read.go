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

// Reader reads rows of CSV as an export writes them.
type Reader struct {
	now       time.Time
	retention time.Duration
	csv       *csv.Reader
}

// NewReader reads the names of the columns. Rows are checked as [Row.Check] does.
func NewReader(r io.Reader, now time.Time, retention time.Duration) (*Reader, error) {
	start := bufio.NewReader(r)
	if mark, _ := start.Peek(3); string(mark) == "\uFEFF" {
		_, _ = start.Discard(3) // Excel begins so
	}
	reader := &Reader{now: now, retention: retention, csv: csv.NewReader(start)}
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
	record, err := r.csv.Read()
	if err != nil {
		return row, err // which names the line, where one is wrong
	}
	if row, err = parse(record); err == nil {
		err = row.Check(r.now, r.retention)
	}
	if err != nil {
		line, _ := r.csv.FieldPos(0)
		return row, fmt.Errorf("line %d: %w", line, err)
	}
	return row, nil
}

// parse reads the columns of a row. Its error is about the first that cannot be read.
func parse(record []string) (row Row, err error) {
	if row.ID.Outcome, err = history.ParseOutcome(record[2]); err != nil {
		return row, fmt.Errorf("column outcome: %w", err)
	}
	row.ID.Domain, row.ID.Path, row.ID.Value = record[0], record[1], record[3]
	var numbers [4]uint64
	for i, text := range record[4:] {
		if text == "" && columns[4+i] == "peak" {
			continue
		}
		if numbers[i], err = strconv.ParseUint(text, 10, 64); err != nil {
			return row, fmt.Errorf("column %s: %.40q is not a whole number from 0", columns[4+i], text)
		}
	}
	row.Start, row.Width = int64(min(numbers[0], 1<<62)), int64(min(numbers[1], 1<<62))
	row.Sum, row.Peak = numbers[2], numbers[3]
	return row, nil
}
