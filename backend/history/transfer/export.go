package transfer

import (
	"context"
	"encoding/csv"
	"errors"
	"io"
	"maps"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/query"
)

// columns are those of a row of CSV, in order.
var columns = []string{"domain", "path", "outcome", "value", "start", "width", "sum", "peak"}

// Why a series is left out.
var (
	errHidden = errors.New("its value is shown to whoever brings the token of ADMIN_READ_TOKEN_FILE or ADMIN_TOKEN_FILE (--token-file)")
	errReturn = errors.New("its name holds a carriage return, which CSV cannot tell from the end of a line")
)

// Exported is what an export has written.
type Exported struct {
	Series   int      `json:"series"` // that had something to write
	Rows     int      `json:"rows"`
	LeftOut  int      `json:"left_out"`           // series that cannot be read, or not written as CSV
	Warnings []string `json:"warnings,omitempty"` // about those
	To       int64    `json:"to"`                 // Unix seconds: nothing that begins here or later was written
	Found    bool     `json:"found"`              // a series was found, if only with hits at other times
}

// Export writes what is stored of the series that a question asks for as CSV, one series at a time: the buckets that
// begin in its range, so that two ranges that touch have no bucket in common. Without from it begins with the first hit.
// It begins to write once nothing is wrong with the question. After an error, what was written is not whole.
func Export(ctx context.Context, h *query.History, p query.Parameters, w io.Writer) (done Exported, err error) {
	asked := maps.Clone(p)
	if p.Get("from") == "" {
		asked["from"] = []string{"0"}
	}
	q, err := h.Read(asked, "domain", "path", "outcome", "value", "from", "to", "tz")
	if err != nil {
		return done, err
	}
	done.To = q.Wanted.To
	out, left := csv.NewWriter(w), query.Unreadable{}
	_ = out.Write(columns) // into a buffer
	done.Found, err = h.Each(ctx, q, q.Wanted, func(s history.Series) error {
		switch {
		case s.Err != nil:
		case history.HidesValues(ctx) && history.IsPersonal(s.ID.Value): // hashes of one run of weir are no history
			s.Err = errHidden
		case strings.Contains(s.ID.Domain+s.ID.Path+s.ID.Value, "\r"):
			s.Err = errReturn
		}
		if s.Err != nil {
			left.Add(&s)
			return nil
		}
		n, err := write(out, &s, q.Wanted)
		if n > 0 {
			done.Series++
			done.Rows += n
		}
		return err
	})
	if err != nil {
		return done, err
	}
	done.Warnings, done.LeftOut = left.Warnings(), left.Count
	out.Flush()
	return done, out.Error()
}

// write writes the buckets of a series that begin in a range, and returns how many they are.
func write(out *csv.Writer, s *history.Series, in history.Range) (n int, err error) {
	for _, p := range s.Points {
		if p.Start < in.From || p.Start >= in.To {
			continue
		}
		err := out.Write([]string{s.ID.Domain, s.ID.Path, s.ID.Outcome.String(), s.ID.Value, strconv.FormatInt(p.Start, 10),
			strconv.FormatInt(p.Tier.Width(), 10), strconv.FormatUint(p.Sum, 10), strconv.FormatUint(p.Peak, 10)})
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
