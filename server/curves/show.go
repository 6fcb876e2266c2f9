package curves

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// maxHeld is how many points and series an answer may have. It is held from when it is made until it is written, some
// 12 MB, and is 15 MB of JSON.
const maxHeld = 250_000

// HistoryAnswer is what GET /api/v1/history answers. All times are Unix seconds.
type HistoryAnswer struct {
	From       int64          `json:"from"`            // of the range that the answer is about: that asked for, widened to whole buckets
	To         int64          `json:"to"`              // exclusive
	Step       int64          `json:"step,omitempty"`  // seconds, of the buckets; 0, and left out, unless a step was asked for
	Since      int64          `json:"since,omitempty"` // if the range has no hits, where the first stored ones are; else left out
	Until      int64          `json:"until,omitempty"` // and where the last stored ones end
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

	id history.ID // what they are ordered by
}

// SeriesName identifies a series.
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
	// Partial is set while the bucket is not over: hits may still come, or all of it may be yet to come.
	Partial bool `json:"partial,omitempty"`

	tier history.Tier // that Tier names
}

func nameOf(id history.ID) SeriesName {
	return SeriesName{id.Domain, id.Path, id.Outcome.String(), id.Value}
}

// ReadableName returns a series' name, but for its outcome, as people are shown it.
func ReadableName(domain, path, value string) string {
	name := domain + " " + descriptors.ReadablePath(path)
	if value != "" {
		name += " value " + descriptors.ReadablePath(value)
	}
	return name
}

// Show answers how many hits there were over time.
func (h *History) Show(ctx context.Context, asked Question) (HistoryAnswer, error) {
	q, err := h.read(&asked)
	if err != nil {
		return HistoryAnswer{}, err
	}
	var all []SeriesAnswer
	var lost unreadable
	merged := make(map[history.ID]int) // where in all the values of a rule are added up
	var series, holds int
	used, err := h.gather(ctx, q, func(as shape) func(history.Series) error {
		clear(all)
		all, lost, series, holds = all[:0], unreadable{}, 0, 0
		clear(merged)
		return func(s history.Series) error {
			if lost.leftOut(&s) {
				return nil
			}
			if asked.Merged {
				s.ID.Value = ""
				if i, known := merged[s.ID]; known && all != nil {
					all[i].add(&s, as.cut)
				}
				if _, known := merged[s.ID]; known {
					return nil
				}
				merged[s.ID] = len(all)
			}
			series++
			if holds += 1 + as.points(&s); holds > maxHeld {
				all = nil // the rest is only counted, to say what can be answered
				return nil
			}
			all = append(all, seriesAnswer(&s, as.cut, q.now))
			return nil
		}
	})
	switch {
	case err != nil:
		return HistoryAnswer{}, err
	case used.step > 0 && used.cut == nil && series > 0:
		return HistoryAnswer{}, tooFine(q.wanted, used.step)
	case holds > maxHeld:
		return HistoryAnswer{}, tooLarge(series)
	}
	slices.SortFunc(all, func(a, b SeriesAnswer) int { return a.id.Compare(b.id) })
	a := HistoryAnswer{From: used.From, To: used.To, Step: used.step, Unreadable: lost.count, Series: all}
	a.Warnings = lost.appendTo(append(q.widened(&used), warningsOf(used.cut, q.zone)...))
	if history.HidesValues(ctx) && slices.ContainsFunc(all, func(s SeriesAnswer) bool { return history.IsPersonal(s.Value) }) {
		a.Warnings = append(a.Warnings, hidden)
	}
	if _, some := used.met.Range(); some {
		return a, nil
	}
	return a, h.explain(ctx, q, &used, &a.Since, &a.Until, &a.Warnings)
}

// tooFine refuses a step of which a range has too many, and says which would do.
func tooFine(r history.Range, step int64) error {
	least, unit := r.Length()/(MaxPoints-2)+1, int64(minute)
	if least > day {
		unit = day
	} else if least > hour {
		unit = hour
	}
	return refuse("step: this range has %d steps of %s, more than %d: use at least %s.", steps(r, step), stepName(step), MaxPoints,
		stepName((least+unit-1)/unit*unit))
}

// Seconds.
const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
)

// stepName writes a step as it is asked for: 15m, 2h or 7d.
func stepName(step int64) string {
	switch {
	case step%day == 0:
		return fmt.Sprintf("%dd", step/day)
	case step%hour == 0:
		return fmt.Sprintf("%dh", step/hour)
	}
	return fmt.Sprintf("%dm", step/minute)
}

// widened returns a sentence if the step in force is not that asked for.
func (q *query) widened(used *gathered) []string {
	if used.step == q.step {
		return []string{}
	}
	return []string{fmt.Sprintf("Steps of %s were asked for, but buckets of %s are stored in this range, and none is split: these are "+
		"of %s.", stepName(q.step), stepName(used.met.Coarsest().Width()), stepName(used.step))}
}

// points returns how many points a series has in this shape.
func (s *shape) points(of *history.Series) int {
	if s.cut == nil {
		return len(of.Points)
	}
	return len(s.cut.Borders) - 1
}

// tooLarge refuses an answer of so many series, and says what would fit.
func tooLarge(series int) error {
	less := "for a shorter time, a wider step"
	if fit := maxHeld/series - 1; fit > 0 {
		less += fmt.Sprintf(", or for at most %d points of each of its %d series", fit, series)
	}
	return refuse("The answer would have more than %d points: ask for a domain, a path or an outcome, %s.", maxHeld, less)
}

// seriesAnswer returns a series as it is stored, or cut.
func seriesAnswer(s *history.Series, cut *history.Cut, now int64) SeriesAnswer {
	a := SeriesAnswer{SeriesName: nameOf(s.ID), Lifetime: s.Lifetime, id: s.ID}
	if cut == nil {
		a.Points = make([]PointAnswer, len(s.Points))
		for i, p := range s.Points {
			a.Points[i] = PointAnswer{p.Start, p.Tier.Width(), p.Sum, p.Peak, p.Tier.String(), p.End() > now, p.Tier}
			a.Total += p.Sum
		}
		return a
	}
	buckets := cut.Fill(s.Points)
	a.Points = make([]PointAnswer, len(buckets))
	for i, b := range buckets {
		a.Points[i] = PointAnswer{Start: b.Start, Width: b.End - b.Start, Sum: b.Sum, Peak: b.Peak, Partial: b.End > now}
		if b.Sum > 0 {
			a.Points[i].tier, a.Points[i].Tier = b.Tier, b.Tier.String()
		}
		a.Total += b.Sum
	}
	return a
}

// add adds a series of other values of the same rule, cut alike. That its minutes were largest at the same time is not
// known, so the sum of the largest is the most that there can have been in one.
func (a *SeriesAnswer) add(s *history.Series, cut *history.Cut) {
	a.Lifetime += s.Lifetime
	for i, b := range cut.Fill(s.Points) {
		if b.Sum == 0 {
			continue
		}
		p := &a.Points[i]
		p.Sum += b.Sum
		p.Peak += b.Peak
		if p.Tier == "" || b.Tier > p.tier {
			p.tier, p.Tier = b.Tier, b.Tier.String()
		}
		a.Total += b.Sum
	}
}

// WriteJSON writes the answer one series at a time: as a whole its JSON may be large.
func (a HistoryAnswer) WriteJSON(w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	var warnings bytes.Buffer
	if err := WriteJSON(&warnings, a.Warnings); err != nil {
		return err
	}
	fmt.Fprintf(out, `{"from":%d,"to":%d,`, a.From, a.To)
	for _, field := range []struct {
		name  string
		value int64
	}{{"step", a.Step}, {"since", a.Since}, {"until", a.Until}} {
		if field.value > 0 {
			fmt.Fprintf(out, `"%s":%d,`, field.name, field.value)
		}
	}
	fmt.Fprintf(out, `"warnings":%s,"unreadable":%d,"series":[`, bytes.TrimSpace(warnings.Bytes()), a.Unreadable)
	for i := range a.Series {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := WriteJSON(out, &a.Series[i]); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "]}")
	return out.Flush()
}

// warningsOf returns a sentence for each stretch of buckets that could not begin at local midnight.
func warningsOf(cut *history.Cut, zone *time.Location) []string {
	var warnings []string
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
