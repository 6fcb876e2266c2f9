package curves

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strconv"

	"github.com/weirproxy/weir/backend/history"
)

const (
	maxRanked = 250_000 // rules and values are ranked at most: some 75 MB
	byHits    = "hits"  // ranks by all hits: those within, over and degraded
)

// TopAnswer is what GET /api/v1/history/top answers: the rules, and values where a rule asks for them, with the most hits.
type TopAnswer struct {
	From       int64    `json:"from"`            // Unix seconds; the range asked for, widened to whole buckets
	To         int64    `json:"to"`              // exclusive
	Since      int64    `json:"since,omitempty"` // where the first hits are stored: of the range, or of all time if it has none
	Until      int64    `json:"until,omitempty"` // and where the last ones end
	Warnings   []string `json:"warnings"`
	Unreadable int      `json:"unreadable"` // series that cannot be read, and are not in what follows: warnings name the first 20
	By         string   `json:"by"`         // hits, or an outcome
	Found      int      `json:"found"`
	Total      uint64   `json:"total"` // by the same, of all that were found
	Top        []TopRow `json:"top"`   // the most first
}

// TopRow is a rule, or one value of it.
type TopRow struct {
	Domain   string `json:"domain"`
	Path     string `json:"path"` // escaped, as it is stored
	Value    string `json:"value"`
	Hits     uint64 `json:"hits"` // within, over and degraded
	Within   uint64 `json:"within"`
	Over     uint64 `json:"over"`
	Degraded uint64 `json:"degraded"`
	Near     uint64 `json:"near"`   // part of within
	Shadow   uint64 `json:"shadow"` // part of over
}

// By returns where a row keeps what it is ranked by: hits, or those of an outcome; nil for anything else.
func (r *TopRow) By(what string) *uint64 {
	i := slices.Index([]string{byHits, "within", "over", "degraded", "near", "shadow"}, what)
	if i < 0 {
		return nil
	}
	return [...]*uint64{&r.Hits, &r.Within, &r.Over, &r.Degraded, &r.Near, &r.Shadow}[i]
}

func (r *TopRow) add(o history.Outcome, hits uint64) {
	if n := r.By(o.String()); n != nil {
		*n += hits
		r.Hits = r.Within + r.Over + r.Degraded
	}
}

// WriteJSON writes the answer as a line of JSON.
func (a TopAnswer) WriteJSON(w io.Writer) error { return WriteJSON(w, a) }

// Top answers which rules, and values where a rule counts them each by itself, had the most hits.
func (h *History) Top(ctx context.Context, asked Question) (TopAnswer, error) {
	asked.By = cmp.Or(asked.By, byHits)
	read := asked
	read.Merged = false // sums need no buckets of one width
	q, err := h.read(&read)
	switch {
	case err != nil:
		return TopAnswer{}, err
	case asked.Rows < 1 || asked.Rows > MaxRows:
		return TopAnswer{}, RefuseNumber("n", strconv.Itoa(asked.Rows), MaxRows)
	case (&TopRow{}).By(asked.By) == nil:
		return TopAnswer{}, refuse("by: nothing is ranked by %q: use hits, within, over, degraded, near or shadow.", asked.By)
	}
	rows := make(map[history.ID]*TopRow)
	var lost unreadable
	used, err := h.gather(ctx, q, func(shape) func(history.Series) error {
		clear(rows)
		lost = unreadable{}
		return func(s history.Series) error {
			if lost.leftOut(&s) {
				return nil
			}
			hits := s.Stored()
			if hits == 0 {
				return nil
			}
			rule := s.ID
			if rule.Outcome = 0; asked.Merged {
				rule.Value = ""
			}
			row := rows[rule]
			if row == nil {
				if len(rows) == maxRanked {
					return refuse("More than %d rules and values were hit: ask for a domain, a path, or a "+
						"shorter time.", maxRanked)
				}
				row = &TopRow{Domain: rule.Domain, Path: rule.Path, Value: rule.Value}
				rows[rule] = row
			}
			row.add(s.ID.Outcome, hits)
			return nil
		}
	})
	if err != nil {
		return TopAnswer{}, err
	}
	a := rank(rows, asked)
	a.From, a.To, a.Warnings, a.Unreadable = used.From, used.To, lost.appendTo([]string{}), lost.count
	if history.HidesValues(ctx) && slices.ContainsFunc(a.Top, func(r TopRow) bool { return history.IsPersonal(r.Value) }) {
		a.Warnings = append(a.Warnings, hidden)
	}
	return a, h.explain(ctx, q, &used, &a.Since, &a.Until, &a.Warnings)
}

func rank(rows map[history.ID]*TopRow, asked Question) TopAnswer {
	a := TopAnswer{By: asked.By, Top: []TopRow{}}
	var ranked []*TopRow
	for _, row := range rows {
		if hits := *row.By(asked.By); hits > 0 {
			a.Total += hits
			ranked = append(ranked, row)
		}
	}
	slices.SortFunc(ranked, func(x, y *TopRow) int {
		return cmp.Or(cmp.Compare(*y.By(asked.By), *x.By(asked.By)), cmp.Compare(x.Domain, y.Domain),
			cmp.Compare(x.Path, y.Path), cmp.Compare(x.Value, y.Value))
	})
	a.Found = len(ranked)
	for _, row := range ranked[:min(len(ranked), asked.Rows)] {
		a.Top = append(a.Top, *row)
	}
	return a
}
