package curves

import (
	"context"
	"io"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/transfer"
)

// Live is how far back Prometheus still writes what it has scraped. Blocks made of OpenMetrics must not reach into that.
const Live = 3 * time.Hour

// Exported is what an export has written.
type Exported struct {
	Series   int      `json:"series"`             // of which something was written
	Rows     int      `json:"rows"`               // or samples
	LeftOut  int      `json:"left_out"`           // series that cannot be read, or not written in the format
	Warnings []string `json:"warnings,omitempty"` // about those, and, if nothing was found, what was perhaps meant
	To       int64    `json:"to"`                 // Unix seconds: nothing that begins here or later was written
	Found    bool     `json:"found"`              // a series was found, if only with hits at other times
}

// Export writes what is stored as transfer.Writer does, a series at a time. Without From it begins with the first hit;
// without To it ends now, and, of OpenMetrics, [Live] before now. Of the question, what cuts and ranks is not for it. It
// begins to write once nothing is wrong with the question. After an error, what was written is not whole, and has no end.
func (h *History) Export(ctx context.Context, asked Question, format transfer.Format, w io.Writer) (Exported, error) {
	now := h.now()
	if asked.From == "" {
		asked.From = "0"
	}
	if asked.To == "" && format == transfer.OpenMetrics {
		asked.To = now.Add(-Live).UTC().Format(time.RFC3339)
	}
	q, err := h.read(&asked)
	if err != nil {
		return Exported{}, err
	}
	e := exporting{out: transfer.NewWriter(w, format, q.wanted, now.Unix()), done: Exported{To: q.wanted.To}}
	for _, outcomes := range format.Passes(q.Outcomes) {
		one := *q
		one.Outcomes = outcomes
		found, err := h.look(ctx, &one, format.From(q.wanted), new(history.Met), e.series)
		if err != nil {
			return e.done, err
		}
		e.done.Found = e.done.Found || found
	}
	if !e.done.Found {
		if e.done.Warnings, err = h.hints(ctx, q); err != nil {
			return e.done, err
		}
	}
	e.done.Warnings, e.done.LeftOut = e.left.appendTo(e.done.Warnings), e.left.count
	return e.done, e.out.Close()
}

// exporting is an export that is under way.
type exporting struct {
	out  *transfer.Writer
	left unreadable
	done Exported
}

func (e *exporting) series(s history.Series) error {
	if s.Err == nil {
		s.Err = e.out.Holds(s.ID)
	}
	if e.left.leftOut(&s) {
		return nil
	}
	n, err := e.out.Series(&s)
	if n > 0 {
		e.done.Series++
		e.done.Rows += n
	}
	return err
}
