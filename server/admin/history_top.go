package admin

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/weirproxy/weir/backend/history"
)

const (
	// maxRows is how many rows of top a client may ask for.
	maxRows = 1000
	// maxRanked is how many rules and values are ranked at most: some 200 MB.
	maxRanked = 1_000_000
	// byHits ranks by all hits: those within, over and degraded.
	byHits = "hits"
)

// TopAnswer is what /api/v1/history/top says: the rules, and values where a rule asks for them, with the most hits.
type TopAnswer struct {
	From       int64    `json:"from"` // Unix seconds; the range asked for, widened to whole buckets
	To         int64    `json:"to"`   // exclusive
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

// by is where a row keeps what it is ranked by; nil for an outcome of a later version.
func (r *TopRow) by(what string) *uint64 {
	return map[string]*uint64{byHits: &r.Hits, "within": &r.Within, "over": &r.Over, "degraded": &r.Degraded,
		"near": &r.Near, "shadow": &r.Shadow}[what]
}

func (r *TopRow) add(o history.Outcome, hits uint64) {
	if n := r.by(o.String()); n != nil {
		*n += hits
		r.Hits = r.Within + r.Over + r.Degraded
	}
}

// Top writes a [TopAnswer] to the parameters of GET /api/v1/history/top: domain, path, value, from and to as Show
// takes them, by and n. It writes nothing if it fails for another reason than that it cannot write.
func (h *History) Top(ctx context.Context, w io.Writer, parameters url.Values) error {
	q, err := h.ask(parameters, "domain", "path", "value", "from", "to", "by", "n")
	if err != nil {
		return err
	}
	if (&TopRow{}).by(q.by) == nil {
		return refuse(http.StatusBadRequest, "by: nothing is ranked by %q: use hits, within, over, degraded, near or shadow.",
			q.by)
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
			rule.Outcome = 0
			row := rows[rule]
			if row == nil {
				if len(rows) == maxRanked {
					return refuse(http.StatusBadRequest, "More than %d rules and values were hit: ask for a domain, a path, or a "+
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
		return err
	}
	a := rank(rows, used.Range, q)
	a.Warnings, a.Unreadable = lost.appendTo([]string{}), lost.count
	return encode(w, a)
}

func rank(rows map[history.ID]*TopRow, used history.Range, q *historyQuestion) TopAnswer {
	a := TopAnswer{From: used.From, To: used.To, By: q.by, Top: []TopRow{}}
	for _, row := range rows {
		if hits := *row.by(q.by); hits > 0 {
			a.Found++
			a.Total += hits
			a.Top = append(a.Top, *row)
		}
	}
	slices.SortFunc(a.Top, func(x, y TopRow) int {
		return cmp.Or(cmp.Compare(*y.by(q.by), *x.by(q.by)), cmp.Compare(x.Domain, y.Domain),
			cmp.Compare(x.Path, y.Path), cmp.Compare(x.Value, y.Value))
	})
	a.Top = slices.Clip(a.Top[:min(len(a.Top), q.rows)])
	return a
}
