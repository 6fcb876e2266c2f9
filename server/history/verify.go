package historyapi

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/weirproxy/weir/backend/history"
)

const maxNamed = 1000 // inexact series that are named; further ones are only counted

// VerifyAnswer is the answer of GET /api/v1/history/verify: whether each series holds, to the integer, all it ever
// counted.
type VerifyAnswer struct {
	Origin
	Series int            `json:"series"`        // checked
	Points int            `json:"points"`        // in them
	Broken int            `json:"broken"`        // series that are inexact, or cannot be read
	Named  []BrokenSeries `json:"named"`         // the first 1,000 broken series that were read, sorted
	Lag    int64          `json:"lag,omitempty"` // seconds until hits are stored, at most, if there is no series
}

// BrokenSeries is a series whose stored and expired hits do not add up to its lifetime, or that cannot be read in
// full; its numbers then are of the readable part. A series with an unreadable name has empty ones.
type BrokenSeries struct {
	SeriesName
	Stored   uint64 `json:"stored"`          // sum of all points; 10^18 means that or more
	Expired  uint64 `json:"expired"`         // dropped after the retention
	Lifetime uint64 `json:"lifetime"`        // all hits ever counted
	Error    string `json:"error,omitempty"` // why it cannot be read, with the key at fault

	id history.ID // to sort by
}

// Verify checks all points of each series, and names the series that are not exact.
func (h *History) Verify(ctx context.Context, p Parameters) (VerifyAnswer, error) {
	q, err := h.read(p, "domain", "path", "outcome", "value")
	if err != nil {
		return VerifyAnswer{}, err
	}
	a := VerifyAnswer{Named: []BrokenSeries{}}
	_, err = q.Each(ctx, h.store, history.Always(), func(s history.Series) error {
		a.Series++
		a.Points += len(s.Points)
		if s.Exact() {
			return nil
		}
		if a.Broken++; len(a.Named) == maxNamed {
			return nil
		}
		b := BrokenSeries{Stored: s.Stored(), Expired: s.Expired, Lifetime: s.Lifetime, id: s.ID}
		if !s.Unnamed {
			b.SeriesName = nameOf(s.ID)
		}
		if s.Err != nil {
			b.Error = s.Err.Error()
		}
		a.Named = append(a.Named, b)
		return nil
	})
	if err != nil {
		return VerifyAnswer{}, err
	}
	if a.Series == 0 {
		a.Lag = h.lag
	}
	slices.SortFunc(a.Named, func(x, y BrokenSeries) int { return cmp.Or(x.id.Compare(y.id), strings.Compare(x.Error, y.Error)) })
	return a, nil
}
