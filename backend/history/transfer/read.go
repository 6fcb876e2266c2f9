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

// readRows calls visit with each valid row of CSV. It returns the first error of visit, or an error that names the
// invalid line and column.
func readRows(r io.Reader, now time.Time, retention time.Duration, visit func(Row) error) error {
	start := bufio.NewReaderSize(r, 64<<10)
	if first, _ := start.Peek(3); string(first) == "\uFEFF" {
		_, _ = start.Discard(3) // the byte order mark of Excel
	}
	records := csv.NewReader(start)
	records.ReuseRecord = true
	first, err := records.Read()
	switch {
	case err == io.EOF:
		err = errors.New("it is empty")
	case err == nil && !slices.Equal(first, columns):
		err = fmt.Errorf("line 1 is %.200q", strings.Join(first, ","))
	}
	if err != nil {
		return fmt.Errorf("%w: it must name the columns, %s", err, strings.Join(columns, ","))
	}
	for {
		record, err := records.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err // names the line
		}
		row, err := parseRow(record)
		if err == nil {
			err = row.check(now, retention)
		}
		if err != nil {
			line, _ := records.FieldPos(0)
			return fmt.Errorf("line %d: %w", line, err)
		}
		if err := visit(row); err != nil {
			return err
		}
	}
}

// parseRow parses the columns of a row. Its error names the first invalid column.
func parseRow(record []string) (row Row, err error) {
	row.ID = history.ID{Domain: record[0], Path: record[1], Value: record[3]}
	if row.ID.Outcome, err = history.ParseOutcome(record[2]); err != nil {
		return row, fmt.Errorf("column outcome: %w", err)
	}
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
