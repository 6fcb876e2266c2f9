package historyapi

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/weirproxy/weir/backend/history"
)

const (
	maxRanked = 250_000 // rules and values that are ranked at most: some 75 MB
	byHits    = "hits"  // ranks by all hits
)

// TopAnswer is the answer of GET /api/v1/history/top: the rules with the most hits, and their values if requested.
type TopAnswer struct {
	Metadata
	By    string   `json:"by"` // hits, or an outcome
	Found int      `json:"found"`
	Total uint64   `json:"total"` // of all rows found, by the same
	Top   []TopRow `json:"top"`   // the most first

	Hit, HitValues int `json:"-"` // rows with any hits, and those of them that are values
}

// TopRow is a rule, or one value of it.
type TopRow struct {
	Domain string `json:"domain"`
	Path   string `json:"path"` // the stored form, escaped
	Value  string `json:"value"`
	RankedHits
}

// RankedHits are the hits that a row can be ranked by.
type RankedHits struct {
	Hits     uint64 `json:"hits"` // within, over, shadow and degraded
	Within   uint64 `json:"within"`
	Over     uint64 `json:"over"`
	Shadow   uint64 `json:"shadow"`
	Degraded uint64 `json:"degraded"`
	Near     uint64 `json:"near"` // part of within
}

var rankings = []string{byHits, "within", "over", "shadow", "degraded", "near"}

// By returns the field that ranks rows by hits or by an outcome; nil for anything else.
func (r *RankedHits) By(what string) *uint64 {
	i := slices.Index(rankings, what)
	if i < 0 {
		return nil
	}
	return [...]*uint64{&r.Hits, &r.Within, &r.Over, &r.Shadow, &r.Degraded, &r.Near}[i]
}

// Add adds the hits of another row.
func (r *RankedHits) Add(other *RankedHits) {
	for _, what := range rankings {
		*r.By(what) += *other.By(what)
	}
}

// Top answers which rules, and values of rules that keep them, had the most hits.
func (h *History) Top(ctx context.Context, p Parameters) (TopAnswer, error) {
	q, err := h.read(p, "domain", "path", "value", "values", "from", "to", "tz", "by", "n")
	if err != nil {
		return TopAnswer{}, err
	}
	rows := make(map[history.ID]*TopRow)
	g, err := q.Gather(ctx, h.store, func(history.Shape) { clear(rows) }, func(s history.Series) error {
		hits := s.Stored()
		if hits == 0 {
			return nil
		}
		rule := s.ID
		if rule.Outcome = 0; q.mergeValues {
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
		*row.By(s.ID.Outcome.String()) += hits
		if !s.ID.Outcome.IsPart() {
			row.Hits += hits
		}
		return nil
	})
	if err != nil {
		return TopAnswer{}, err
	}
	a := q.rank(rows)
	personal := slices.ContainsFunc(a.Top, func(r TopRow) bool { return history.IsPersonal(r.Value) })
	a.Metadata, err = h.metadata(ctx, q, &g, personal)
	return a, err
}

func (q *query) rank(rows map[history.ID]*TopRow) TopAnswer {
	a := TopAnswer{By: q.by, Top: []TopRow{}}
	var ranked []*TopRow
	for id, row := range rows {
		a.Hit++
		if id.Value != "" {
			a.HitValues++
		}
		if hits := *row.By(q.by); hits > 0 {
			a.Total += hits
			ranked = append(ranked, row)
		}
	}
	slices.SortFunc(ranked, func(x, y *TopRow) int {
		return cmp.Or(cmp.Compare(*y.By(q.by), *x.By(q.by)), strings.Compare(x.Domain, y.Domain),
			strings.Compare(x.Path, y.Path), strings.Compare(x.Value, y.Value))
	})
	a.Found = len(ranked)
	for _, row := range ranked[:min(len(ranked), q.rows)] {
		a.Top = append(a.Top, *row)
	}
	return a
}
