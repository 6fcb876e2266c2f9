package transfer

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/weirproxy/weir/backend/history"
)

// Format is the format of an export.
type Format string

// The formats. OpenMetrics cannot be read back: it has totals, not buckets.
const (
	CSV         Format = "csv"
	OpenMetrics Format = "openmetrics"
)

// ParseFormat reads a format's name.
func ParseFormat(name string) (Format, error) {
	if f := Format(name); f == CSV || f == OpenMetrics {
		return f, nil
	}
	return "", fmt.Errorf("%q is not a format: use one of %s, %s", name, CSV, OpenMetrics)
}

// QueryGroups splits the requested outcomes, all if there are none, into groups. Query the store once for each group,
// as OpenMetrics wants all series of a metric family together.
func (f Format) QueryGroups(outcomes []history.Outcome) (groups [][]history.Outcome) {
	if f != OpenMetrics {
		return [][]history.Outcome{outcomes}
	}
	for _, family := range families {
		group := slices.DeleteFunc(slices.Clone(family.outcomes), func(o history.Outcome) bool {
			return len(outcomes) > 0 && !slices.Contains(outcomes, o)
		})
		if len(group) > 0 {
			groups = append(groups, group)
		}
	}
	return groups
}

// columns are the columns of CSV.
var columns = []string{"domain", "path", "outcome", "value", "start", "width", "sum", "peak"}

// Writer writes series in a format: as CSV, the buckets that begin in a range, so that exports of adjacent ranges have
// no bucket twice; as OpenMetrics, the samples in the range.
type Writer interface {
	// Write writes a series, and returns the number of rows or samples. Series of a group must be written together.
	Write(s *history.Series) (int, error)
	// Close writes the end. Call it only if all series were written.
	Close() error
}

// NewWriter returns a writer. A bucket that is not over at now, in Unix seconds, ends with a sample at now.
func NewWriter(w io.Writer, f Format, r history.Range, now int64) Writer {
	if f == OpenMetrics {
		return &metricsWriter{w: w, written: r, now: now}
	}
	out := &csvWriter{csv.NewWriter(w), r}
	_ = out.csv.Write(columns) // into a buffer; Close returns later errors
	return out
}

// csvWriter is a [Writer] of CSV.
type csvWriter struct {
	csv     *csv.Writer
	written history.Range
}

func (w *csvWriter) Write(s *history.Series) (n int, err error) {
	for _, p := range s.Points {
		if !w.written.Has(p.Start) {
			continue
		}
		err := w.csv.Write([]string{s.ID.Domain, s.ID.Path, s.ID.Outcome.String(), s.ID.Value, strconv.FormatInt(p.Start, 10),
			strconv.FormatInt(p.Tier.Width(), 10), strconv.FormatUint(p.Sum, 10), strconv.FormatUint(p.Peak, 10)})
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (w *csvWriter) Close() error {
	w.csv.Flush()
	return w.csv.Error()
}
