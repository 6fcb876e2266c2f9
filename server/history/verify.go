package historyapi

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/weirproxy/weir/backend/history"
)

const maxNamed = 1000 // series that are not exact are named; further ones are only counted

// VerifyAnswer is what GET /api/v1/history/verify answers: whether each series holds, to the integer, what it ever counted.
type VerifyAnswer struct {
	Origin
	Series int            `json:"series"`        // looked at
	Points int            `json:"points"`        // in them
	Broken int            `json:"broken"`        // series that are not exact, or cannot be read
	Named  []BrokenSeries `json:"named"`         // of these, the first 1,000 that were met, in order
	Lag    int64          `json:"lag,omitempty"` // seconds that hits take at most until they are stored, if no series is
}

// BrokenSeries is a series whose stored and expired hits do not make its lifetime, or of which some cannot be read; its
// numbers then are what could be. One whose name cannot be read has an empty one, and an empty outcome.
type BrokenSeries struct {
	SeriesName
	Stored   uint64 `json:"stored"`          // sum of all points; 10^18 stands for that and more
	Expired  uint64 `json:"expired"`         // dropped with the retention
	Lifetime uint64 `json:"lifetime"`        // all that was ever counted
	Error    string `json:"error,omitempty"` // why it cannot be read, with the key at fault

	id history.ID // what they are ordered by
}

// Verify looks at all that is stored of each series, and names those that are not exact.
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
