package admin

import (
	"cmp"
	"context"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/weirproxy/weir/backend/history"
)

// maxBroken is how many series that are not exact are named; further ones are only counted.
const maxBroken = 1000

// VerifyAnswer is what /api/v1/history/verify says: whether each series holds, to the integer, what it ever counted.
type VerifyAnswer struct {
	Series int            `json:"series"` // looked at
	Points int            `json:"points"` // in them
	Broken int            `json:"broken"` // series that are not exact, or cannot be read
	Named  []BrokenSeries `json:"named"`  // of these, the first 1,000 that were met, in order
}

// BrokenSeries is a series whose stored and expired hits do not make its lifetime, or of which some cannot be read; its
// numbers then are what could be. One whose name cannot be read has an empty one, and an empty outcome.
type BrokenSeries struct {
	SeriesName
	Stored   uint64 `json:"stored"`          // sum of all points; 10^18 stands for that and more
	Expired  uint64 `json:"expired"`         // dropped with the retention
	Lifetime uint64 `json:"lifetime"`        // all that was ever counted
	Error    string `json:"error,omitempty"` // why it cannot be read, with the key at fault
}

func brokenOf(s *history.Series) BrokenSeries {
	b := BrokenSeries{SeriesName: nameOf(s.ID), Stored: s.Stored(), Expired: s.Expired, Lifetime: s.Lifetime}
	if s.Unnamed {
		b.SeriesName = SeriesName{}
	}
	if s.Err != nil {
		b.Error = s.Err.Error()
	}
	return b
}

// Verify writes a [VerifyAnswer] to the parameters of GET /api/v1/history/verify: domain, path, outcome and value as
// Show takes them. It writes nothing if it fails for another reason than that it cannot write.
func (h *History) Verify(ctx context.Context, w io.Writer, parameters url.Values) error {
	q, err := h.ask(parameters, "domain", "path", "outcome", "value")
	if err != nil {
		return err
	}
	q.wanted = history.Always()
	var a VerifyAnswer
	var broken []brokenID
	_, err = h.gather(ctx, q, func(shape) func(history.Series) error {
		a, broken = VerifyAnswer{}, nil
		return func(s history.Series) error {
			a.Series++
			a.Points += len(s.Points)
			if s.Exact() {
				return nil
			}
			if a.Broken++; len(broken) < maxBroken {
				broken = append(broken, brokenID{s.ID, brokenOf(&s)})
			}
			return nil
		}
	})
	if err != nil {
		return err
	}
	slices.SortFunc(broken, func(x, y brokenID) int {
		return cmp.Or(x.id.Compare(y.id), strings.Compare(x.series.Error, y.series.Error))
	})
	a.Named = make([]BrokenSeries, 0, len(broken))
	for _, b := range broken {
		a.Named = append(a.Named, b.series)
	}
	return encode(w, a)
}

// brokenID is a broken series with what it is ordered by.
type brokenID struct {
	id     history.ID
	series BrokenSeries
}
