package historyapi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// maxAnswered is how many points and series an answer may have together: some 12 MB until it is written, and 15 MB of
// JSON.
const maxAnswered = 250_000

// HistoryAnswer is the answer of GET /api/v1/history.
type HistoryAnswer struct {
	Metadata
	Now    int64          `json:"now"`    // Unix seconds: the end of what partial buckets have seen
	Series []SeriesAnswer `json:"series"` // by domain, path, value and outcome
}

// SeriesAnswer is one series.
type SeriesAnswer struct {
	SeriesName
	PartOf   string        `json:"part_of,omitempty"` // the outcome that includes these hits: within, for near
	Total    uint64        `json:"total"`             // of the points
	Lifetime uint64        `json:"lifetime"`          // all hits ever counted, with expired ones
	Points   []PointAnswer `json:"points"`            // oldest first
}

// SeriesName identifies a series.
type SeriesName struct {
	Domain  string `json:"domain"`
	Path    string `json:"path"` // the stored form, escaped
	Outcome string `json:"outcome"`
	Value   string `json:"value"`
}

// PointAnswer has the hits of a bucket.
type PointAnswer struct {
	Start int64  `json:"start"`
	Width int64  `json:"width"` // seconds
	Sum   uint64 `json:"sum"`
	Peak  uint64 `json:"peak"`           // the largest known minute in it
	Tier  string `json:"tier,omitempty"` // the coarsest of its sources; "" if it is empty
	// Partial says that the bucket ends in the future: hits may still come.
	Partial bool `json:"partial,omitempty"`

	tier history.Tier // the value of Tier
}

func nameOf(id history.ID) SeriesName {
	return SeriesName{id.Domain, id.Path, id.Outcome.String(), id.Value}
}

// Show answers how many hits there were over time.
func (h *History) Show(ctx context.Context, p Parameters) (HistoryAnswer, error) {
	q, err := h.read(p, "domain", "path", "outcome", "value", "values", "rules", "from", "to", "points", "step", "tz")
	switch {
	case err != nil:
		return HistoryAnswer{}, err
	case q.mergeValues && q.Points == 0 && q.Step == 0:
		return HistoryAnswer{}, refuse("values=false and rules=false add up buckets of one width: give points or step with them.")
	}
	var all curves
	g, err := q.Gather(ctx, h.store, func(s history.Shape) { all = curves{Shape: s, answers: make(map[history.ID]*SeriesAnswer)} },
		func(s history.Series) error {
			all.add(&s, q)
			return nil
		})
	switch {
	case err != nil:
		return HistoryAnswer{}, err
	case all.size > maxAnswered:
		return HistoryAnswer{}, refuse("The answer would have more than %d points: ask for a domain, a path or an outcome, for a "+
			"shorter time, or for fewer points.", maxAnswered)
	}
	a := HistoryAnswer{Now: q.now, Series: []SeriesAnswer{}}
	for _, id := range slices.SortedFunc(maps.Keys(all.answers), history.ID.Compare) {
		a.Series = append(a.Series, *all.answers[id])
	}
	personal := slices.ContainsFunc(a.Series, func(s SeriesAnswer) bool { return history.IsPersonal(s.Value) })
	a.Metadata, err = h.metadata(ctx, q, &g, personal, slices.Concat(q.stepWarning(&g), midnightWarnings(&g.Cut, q.Zone))...)
	if _, some := g.Visited.Range(); some {
		a.Since, a.Until = 0, 0
	}
	return a, err
}

// curves are the series of an answer, in one shape.
type curves struct {
	history.Shape
	answers map[history.ID]*SeriesAnswer
	size    int // points and series
}

// add adds a series, or merges it with another, unless there are too many points.
func (c *curves) add(s *history.Series, q *query) {
	id := s.ID
	if q.mergeValues {
		id.Value = ""
	}
	if q.mergeRules {
		id.Domain, id.Path = "", ""
	}
	if c.size > maxAnswered {
		return
	}
	buckets := c.Buckets(s)
	if c.answers[id] == nil {
		c.size += 1 + len(buckets)
		a := &SeriesAnswer{SeriesName: nameOf(id), Points: make([]PointAnswer, 0, len(buckets))}
		if id.Outcome.IsPart() {
			a.PartOf = history.Within.String()
		}
		c.answers[id] = a
	}
	c.answers[id].add(s, buckets, q.now)
}

// add adds the buckets of a series; merged series have the same buckets. Their largest minutes may be different ones,
// so the sum of these is an upper bound of the peak.
func (a *SeriesAnswer) add(s *history.Series, buckets []history.Bucket, now int64) {
	a.Lifetime += s.Lifetime
	for i, b := range buckets {
		if i == len(a.Points) {
			a.Points = append(a.Points, PointAnswer{Start: b.Start, Width: b.End - b.Start, Partial: b.End > now})
		}
		p := &a.Points[i]
		p.Sum += b.Sum
		p.Peak += b.Peak
		if b.Sum > 0 && (p.Tier == "" || b.Tier > p.tier) {
			p.tier, p.Tier = b.Tier, b.Tier.String()
		}
		a.Total += b.Sum
	}
}

// steps returns how many buckets of a step overlap a range.
func steps(r history.Range, step int64) int64 { return (r.To+step-1)/step - r.From/step }

// stepName formats a step as it is requested: 15m, 2h or 7d.
func stepName(step int64) string {
	switch {
	case step%history.Day == 0:
		return fmt.Sprintf("%dd", step/history.Day)
	case step%history.Hour == 0:
		return fmt.Sprintf("%dh", step/history.Hour)
	}
	return fmt.Sprintf("%dm", step/history.Minute)
}

// stepWarning returns a sentence if the step of the answer is not the requested one.
func (q *query) stepWarning(g *history.GatherResult) []string {
	if g.Step == q.Step {
		return nil
	}
	return []string{fmt.Sprintf("Steps of %s were asked for, but buckets of %s are stored in this range, and none is split: these are "+
		"of %s.", stepName(q.Step), stepName(g.Stored.Coarsest().Width()), stepName(g.Step))}
}

// midnightWarnings returns a sentence for each tier whose buckets could not begin at local midnight.
func midnightWarnings(cut *history.Cut, zone *time.Location) (warnings []string) {
	texts := map[history.Tier]string{
		history.Days: "Until %s only whole UTC days are stored, so each local day there is shown as the UTC day nearest to it.",
		history.Hours: "Until %s only whole hours are stored, so local days there begin at the full hour of UTC nearest to " +
			"midnight.",
	}
	for _, tier := range [...]history.Tier{history.Days, history.Hours} {
		if at := cut.Moved[tier]; at > 0 {
			warnings = append(warnings, fmt.Sprintf(texts[tier], time.Unix(at, 0).In(zone).Format(time.RFC3339)))
		}
	}
	return warnings
}
