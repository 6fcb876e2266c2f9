package historyapi

import (
	"context"
	"errors"
	"io"
	"maps"
	"strings"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/transfer"
)

// openMetricsEnd is the default end of an OpenMetrics export: blocks made of it must not overlap the last hours, which
// Prometheus still writes itself.
const openMetricsEnd = "-3h"

// Why a series is left out.
var (
	errHidden         = errors.New("its value is shown to whoever brings the token of ADMIN_READ_TOKEN_FILE or ADMIN_TOKEN_FILE (--token-file)")
	errCarriageReturn = errors.New("its name holds a carriage return, which CSV cannot tell from the end of a line")
)

// Exported is the result of an export.
type Exported struct {
	Series   int      `json:"series"`             // series with rows
	Rows     int      `json:"rows"`               // rows or samples
	LeftOut  int      `json:"left_out"`           // series that cannot be read, or that the format cannot express
	Warnings []string `json:"warnings,omitempty"` // about the series left out
	To       int64    `json:"to"`                 // Unix seconds: the exclusive end of the range
	Found    bool     `json:"found"`              // a series was found, with hits in the range or not
}

// Export writes the series that a query selects, one after the other. By default it begins with the first hit and
// ends now; with OpenMetrics, 3 hours before now. It writes nothing if the query is wrong. After an error the
// output is incomplete, and has no end.
func (h *History) Export(ctx context.Context, p Parameters, format transfer.Format, w io.Writer) (written Exported, err error) {
	p = maps.Clone(p)
	if p.Get("from") == "" {
		p["from"] = []string{"0"}
	}
	if p.Get("to") == "" && format == transfer.OpenMetrics {
		p["to"] = []string{openMetricsEnd}
	}
	q, err := h.read(p, "format", "domain", "path", "outcome", "value", "from", "to", "tz")
	if err != nil {
		return written, err
	}
	written.To = q.Range.To
	out, leftOut := transfer.NewWriter(w, format, q.Range, q.now), history.Unreadable{}
	write := func(s history.Series) error {
		switch {
		case s.Err != nil:
		case history.HidesValues(ctx) && history.IsPersonal(s.ID.Value): // hashes change with each start of weir
			s.Err = errHidden
		case format == transfer.CSV && strings.Contains(s.ID.Domain+s.ID.Path+s.ID.Value, "\r"):
			s.Err = errCarriageReturn
		}
		if s.Err != nil {
			leftOut.Add(&s)
			return nil
		}
		n, err := out.Write(&s)
		if n > 0 {
			written.Series++
			written.Rows += n
		}
		return err
	}
	needed := q.Range
	if format == transfer.OpenMetrics {
		needed.To = history.Always().To // totals need all later hits
	}
	for _, outcomes := range format.QueryGroups(q.Outcomes) {
		q.Outcomes = outcomes
		found, err := q.Each(ctx, h.store, needed, write)
		if err != nil {
			return written, err
		}
		written.Found = written.Found || found
	}
	written.Warnings, written.LeftOut = leftOut.Warnings(), leftOut.Count
	if !written.Found && written.LeftOut == 0 {
		if written.Warnings, err = h.unknownValue(ctx, q); err != nil {
			return written, err
		}
	}
	return written, out.Close()
}
