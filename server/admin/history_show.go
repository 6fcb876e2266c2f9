package admin

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// maxHeld is how many points and series an answer may have: it is held while it is made, some 50 MB then.
const maxHeld = 1_000_000

// HistoryAnswer is what /api/v1/history says. All times are Unix seconds.
type HistoryAnswer struct {
	From       int64          `json:"from"` // of the range that the answer is about: that asked for, widened to whole buckets
	To         int64          `json:"to"`   // exclusive
	Warnings   []string       `json:"warnings"`
	Unreadable int            `json:"unreadable"` // series that were asked for and cannot be read: warnings name the first 20
	Series     []SeriesAnswer `json:"series"`     // the others, by domain, path, value and outcome
}

// SeriesAnswer is one series.
type SeriesAnswer struct {
	SeriesName
	Total    uint64        `json:"total"`    // of the points
	Lifetime uint64        `json:"lifetime"` // all that was ever counted, whether it is still stored or not
	Points   []PointAnswer `json:"points"`   // oldest first
}

// SeriesName says which series one is.
type SeriesName struct {
	Domain  string `json:"domain"`
	Path    string `json:"path"` // escaped, as it is stored
	Outcome string `json:"outcome"`
	Value   string `json:"value"`
}

// PointAnswer is the hits of a bucket.
type PointAnswer struct {
	Start int64  `json:"start"`
	Width int64  `json:"width"` // seconds
	Sum   uint64 `json:"sum"`
	Peak  uint64 `json:"peak"`           // the largest minute in it that is known
	Tier  string `json:"tier,omitempty"` // the coarsest that it was made of; none if it is empty
}

func nameOf(id history.ID) SeriesName {
	return SeriesName{id.Domain, id.Path, id.Outcome.String(), id.Value}
}

// held is a series whose answer is to be written.
type held struct {
	id       history.ID
	lifetime uint64
	points   []history.Point  // as stored
	buckets  []history.Bucket // or cut
}

// Show writes a [HistoryAnswer] to the parameters of GET /api/v1/history. It writes nothing if it fails for another
// reason than that it cannot write. An error's text is a sentence for whoever asked.
func (h *History) Show(ctx context.Context, w io.Writer, parameters url.Values) error {
	q, err := h.ask(parameters, "domain", "path", "outcome", "value", "from", "to", "points", "tz")
	if err != nil {
		return err
	}
	var all []held
	var lost unreadable
	used, err := h.gather(ctx, q, func(as shape) func(history.Series) error {
		clear(all)
		all, lost = all[:0], unreadable{}
		holds := 0
		return func(s history.Series) error {
			if lost.leftOut(&s) {
				return nil
			}
			one := held{id: s.ID, lifetime: s.Lifetime, points: s.Points}
			if as.cut != nil {
				one.points, one.buckets = nil, as.cut.Fill(s.Points)
			}
			if holds += 1 + len(one.points) + len(one.buckets); holds > maxHeld {
				return refuse(http.StatusBadRequest, "The answer would have more than %d points: ask for a domain, a path or an "+
					"outcome, for a shorter time, or for fewer points.", maxHeld)
			}
			all = append(all, one)
			return nil
		}
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b held) int { return a.id.Compare(b.id) })
	return writeHistory(w, used, lost.appendTo(warningsOf(used.cut, q.zone)), lost.count, all)
}

// writeHistory writes a HistoryAnswer, one series at a time: as a whole it may be large.
func writeHistory(w io.Writer, used shape, warnings []string, lost int, all []held) error {
	out := bufio.NewWriterSize(w, 64<<10)
	var list bytes.Buffer
	if err := encode(&list, warnings); err != nil {
		return err
	}
	fmt.Fprintf(out, `{"from":%d,"to":%d,"warnings":%s,"unreadable":%d,"series":[`, used.From, used.To,
		bytes.TrimSpace(list.Bytes()), lost)
	for i := range all {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := encode(out, answerOf(&all[i])); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "]}")
	return out.Flush()
}

func answerOf(s *held) SeriesAnswer {
	a := SeriesAnswer{SeriesName: nameOf(s.id), Lifetime: s.lifetime,
		Points: make([]PointAnswer, 0, len(s.points)+len(s.buckets))}
	for _, p := range s.points {
		a.Total += p.Sum
		a.Points = append(a.Points, PointAnswer{p.Start, p.Tier.Width(), p.Sum, p.Peak, p.Tier.String()})
	}
	for _, b := range s.buckets {
		p := PointAnswer{Start: b.Start, Width: b.End - b.Start, Sum: b.Sum, Peak: b.Peak}
		if b.Sum > 0 {
			p.Tier = b.Tier.String()
		}
		a.Total += b.Sum
		a.Points = append(a.Points, p)
	}
	return a
}

// warningsOf says where buckets could not begin at local midnight.
func warningsOf(cut *history.Cut, zone *time.Location) []string {
	warnings := []string{}
	if cut == nil {
		return warnings
	}
	for _, t := range []struct {
		tier history.Tier
		text string
	}{
		{history.Days, "Until %s only whole UTC days are stored, so each local day there is shown as the UTC day nearest " +
			"to it."},
		{history.Hours, "Until %s only whole hours are stored, so local days there begin at the full hour of UTC nearest " +
			"to midnight."},
	} {
		if at := cut.Moved[t.tier]; at > 0 {
			warnings = append(warnings, fmt.Sprintf(t.text, time.Unix(at, 0).In(zone).Format(time.RFC3339)))
		}
	}
	return warnings
}
