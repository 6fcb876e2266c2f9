package transfer

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/backend/history"
)

// Format is how an export is written.
type Format string

// The formats. OpenMetrics cannot be read back: it has totals, not buckets.
const (
	CSV         Format = "csv"
	JSON        Format = "json" // an object a line
	OpenMetrics Format = "openmetrics"
)

var formats = []string{string(CSV), string(JSON), string(OpenMetrics)}

// ParseFormat reads a format's name.
func ParseFormat(name string) (Format, error) {
	if !slices.Contains(formats, name) {
		return "", fmt.Errorf("%q is not a format: use one of %s", name, strings.Join(formats, ", "))
	}
	return Format(name), nil
}

// MediaType returns what an HTTP answer in the format is of.
func (f Format) MediaType() string {
	switch f {
	case CSV:
		return "text/csv; charset=utf-8"
	case JSON:
		return "application/x-ndjson"
	}
	return "application/openmetrics-text; version=1.0.0; charset=utf-8"
}

// Passes returns the outcomes asked for, none for all, as often as the store has to be asked: what is written of each
// pass lies together. Series of a family of OpenMetrics must.
func (f Format) Passes(outcomes []history.Outcome) (passes [][]history.Outcome) {
	if f != OpenMetrics {
		return [][]history.Outcome{outcomes}
	}
	for _, family := range families {
		asked := slices.DeleteFunc(slices.Clone(family.outcomes), func(o history.Outcome) bool {
			return len(outcomes) > 0 && !slices.Contains(outcomes, o)
		})
		if len(asked) > 0 {
			passes = append(passes, asked)
		}
	}
	return passes
}

// From returns the range that the store is to be asked for, to write one: totals need all that came after it.
func (f Format) From(in history.Range) history.Range {
	if f == OpenMetrics {
		in.To = max(in.To, history.Always().To)
	}
	return in
}

// columns are those of a row, in order.
var columns = []string{"domain", "path", "outcome", "value", "start", "width", "sum", "peak"}

// line is a row as JSON has it.
type line struct {
	Domain  string `json:"domain"`
	Path    string `json:"path"`
	Outcome string `json:"outcome"`
	Value   string `json:"value"`
	Start   int64  `json:"start"`
	Width   int64  `json:"width"`
	Sum     uint64 `json:"sum"`
	Peak    uint64 `json:"peak"`
}

// Writer writes series in a format: of rows, those that begin in a range, so that what is written of two ranges that
// touch has no bucket twice; of OpenMetrics, the samples in it. Without Close, OpenMetrics has no end.
type Writer struct {
	format Format
	in     history.Range
	now    int64
	csv    *csv.Writer
	json   *json.Encoder
	text   *metricsWriter
	begun  bool
}

// NewWriter returns a writer. A bucket that is not over at now, in Unix seconds, has a sample at now.
func NewWriter(w io.Writer, f Format, in history.Range, now int64) *Writer {
	out := &Writer{format: f, in: in, now: now}
	switch f {
	case CSV:
		out.csv = csv.NewWriter(w)
	case JSON:
		out.json = json.NewEncoder(w)
		out.json.SetEscapeHTML(false)
	default:
		out.text = &metricsWriter{w: w}
	}
	return out
}

// Holds returns an error if a series cannot be written in the format as it is.
func (w *Writer) Holds(id history.ID) error {
	if w.format == CSV && strings.Contains(id.Domain+"\n"+id.Path+"\n"+id.Value, "\r") {
		return fmt.Errorf("its name holds a carriage return, which CSV cannot tell from the end of a line; json can")
	}
	return nil
}

// Series writes a series, and returns how many rows or samples that are. Series of a pass must come together.
func (w *Writer) Series(s *history.Series) (n int, err error) {
	if err := w.begin(); err != nil {
		return 0, err
	}
	if w.text != nil {
		return w.text.series(s, w.in, w.now)
	}
	for _, p := range s.Points {
		if p.Start < w.in.From || p.Start >= w.in.To {
			continue
		}
		if err := w.row(RowOf(s.ID, p)); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (w *Writer) begin() error {
	if w.begun || w.csv == nil {
		return nil
	}
	w.begun = true
	return w.csv.Write(columns)
}

func (w *Writer) row(r Row) error {
	if w.json != nil {
		return w.json.Encode(line{r.ID.Domain, r.ID.Path, r.ID.Outcome.String(), r.ID.Value, r.Start, r.Width, r.Sum, r.Peak})
	}
	err := w.csv.Write([]string{r.ID.Domain, r.ID.Path, r.ID.Outcome.String(), r.ID.Value, strconv.FormatInt(r.Start, 10),
		strconv.FormatInt(r.Width, 10), strconv.FormatUint(r.Sum, 10), strconv.FormatUint(r.Peak, 10)})
	return err
}

// Close ends what is written. It is only for what is whole.
func (w *Writer) Close() error {
	if err := w.begin(); err != nil {
		return err
	}
	switch {
	case w.csv != nil:
		w.csv.Flush()
		return w.csv.Error()
	case w.text != nil:
		return w.text.close()
	}
	return nil
}
