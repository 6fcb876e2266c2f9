package query

import (
	"context"
	"errors"
	"io"
	"maps"
	"strconv"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/transfer"
)

// Live is how far back Prometheus still writes what it has scraped. Blocks made of OpenMetrics must not reach into that.
const Live = 3 * time.Hour

var errHidden = errors.New("its value is shown to whoever brings the token of ADMIN_READ_TOKEN_FILE or ADMIN_TOKEN_FILE " +
	"(--token-file)")

// Exported is what an export has written.
type Exported struct {
	Series   int      `json:"series"`             // of which something was written
	Rows     int      `json:"rows"`               // or samples
	LeftOut  int      `json:"left_out"`           // series that cannot be read, or not written in the format
	Warnings []string `json:"warnings,omitempty"` // about those, and, if nothing was found, what was perhaps meant
	To       int64    `json:"to"`                 // Unix seconds: nothing that begins here or later was written
	Found    bool     `json:"found"`              // a series was found, if only with hits at other times
}

// Export writes what is stored as transfer.Writer does, a series at a time. Without from it begins with the first hit;
// without to it ends now, and, of OpenMetrics, [Live] before now. It begins to write once nothing is wrong with the
// question. After an error, what was written is not whole, and has no end.
func (h *History) Export(ctx context.Context, p Parameters, format transfer.Format, w io.Writer) (done Exported, err error) {
	now := h.now()
	asked := Parameters{}
	maps.Copy(asked, p)
	if p.Get("from") == "" {
		asked["from"] = []string{"0"}
	}
	if p.Get("to") == "" && format == transfer.OpenMetrics {
		asked["to"] = []string{strconv.FormatInt(now.Add(-Live).Unix(), 10)}
	}
	q, err := h.read(asked, "format", "domain", "path", "outcome", "value", "from", "to", "tz")
	if err != nil {
		return done, err
	}
	done.To = q.wanted.To
	out, left := transfer.NewWriter(w, format, q.wanted, now.Unix()), Unreadable{Most: maxUnreadable}
	write := func(s history.Series) error {
		switch {
		case s.Err != nil:
		case history.HidesValues(ctx) && history.IsPersonal(s.ID.Value): // hashes of one run of weir are no history
			s.Err = errHidden
		default:
			s.Err = out.Holds(s.ID)
		}
		if s.Err != nil {
			left.Add(&s)
			return nil
		}
		n, err := out.Series(&s)
		if n > 0 {
			done.Series++
			done.Rows += n
		}
		return err
	}
	for _, outcomes := range format.Passes(q.Outcomes) {
		q.Outcomes = outcomes
		found, err := h.look(ctx, q, format.From(q.wanted), new(history.Met), write)
		if err != nil {
			return done, err
		}
		done.Found = done.Found || found
	}
	if !done.Found {
		if done.Warnings, err = h.hints(ctx, q); err != nil {
			return done, err
		}
	}
	done.Warnings, done.LeftOut = append(done.Warnings, left.Warnings()...), left.Count
	return done, out.Close()
}
