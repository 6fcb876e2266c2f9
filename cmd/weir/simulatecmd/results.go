package simulatecmd

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

// results are the results of one simulation.
type results struct {
	requests  uint64
	unlimited uint64 // requests that no limit applied to
	from, to  time.Time
	rules     map[*descriptors.Rule]*ruleResults
}

func newResults() results { return results{rules: make(map[*descriptors.Rule]*ruleResults)} }

// ruleResults are the results of the hits of a rule. Hits count as denied if the rule denied them or, in shadow mode or
// as a quota beside one with room, would have. Hits that are neither admitted nor denied were denied by other rules.
type ruleResults struct {
	Algorithm     string   `json:"algorithm"`
	Asked         uint64   `json:"asked"`
	Admitted      uint64   `json:"admitted"`
	Denied        uint64   `json:"denied"`
	MinutesDenied int      `json:"minutes_denied"` // minutes with denied hits
	Callers       int      `json:"callers"`
	CallersDenied int      `json:"callers_denied"`
	Worst         []uint64 `json:"worst_windows"` // by limit, the most admitted hits of one caller in any window

	callers map[string]*caller // by the key of the counter
	minutes []minute           // minutes with hits
}

// caller has the hits under one key of a rule.
type caller struct {
	Descriptor string `json:"descriptor"`
	Asked      uint64 `json:"asked"`
	Denied     uint64 `json:"denied"`

	admitted []window.State // by limit of the rule, an exact log of admitted hits
}

// minute has the hits of a minute that begins at Start, in Unix seconds.
type minute struct {
	Start  int64  `json:"start"`
	Asked  uint64 `json:"asked"`
	Denied uint64 `json:"denied"`
}

// add adds a decided request. The checks belong to the statuses with a limit, in their order.
func (r *results) add(q *request, c *limit.Call, checks []backend.Check) {
	if r.requests++; r.requests == 1 {
		r.from = q.at
	}
	if r.to = q.at; len(checks) == 0 {
		r.unlimited++
	}
	for i := range c.Statuses {
		s := &c.Statuses[i]
		if s.Limit == nil {
			continue
		}
		check := &checks[0]
		checks = checks[1:]
		of := r.rules[s.Rule]
		if of == nil {
			of = &ruleResults{callers: make(map[string]*caller), Worst: make([]uint64, len(s.Rule.Limits))}
			r.rules[s.Rule] = of
		}
		who := of.callers[string(check.Key)]
		if who == nil {
			who = &caller{Descriptor: c.Descriptors[i].Entries.String()}
			for _, l := range s.Rule.Limits {
				who.admitted = append(who.admitted, window.NewState(&descriptors.Limit{Algorithm: descriptors.SlidingLog, Window: l.Window}))
			}
			of.callers[string(check.Key)] = who
			of.Callers++
		}
		of.add(who, q.at.UnixMicro(), check.Hits, c.Result != limit.OverLimit && s.Outcome == limit.Within, s.Outcome != limit.Within)
	}
}

// add adds the hits of a check at a moment in Unix microseconds.
func (r *ruleResults) add(who *caller, at int64, hits uint64, admitted, denied bool) {
	if n := len(r.minutes); n == 0 || r.minutes[n-1].Start != at/60e6*60 {
		r.minutes = append(r.minutes, minute{Start: at / 60e6 * 60})
	}
	now := &r.minutes[len(r.minutes)-1]
	r.Asked, who.Asked, now.Asked = r.Asked+hits, who.Asked+hits, now.Asked+hits
	if denied {
		if who.Denied == 0 {
			r.CallersDenied++
		}
		if now.Denied == 0 {
			r.MinutesDenied++
		}
		r.Denied, who.Denied, now.Denied = r.Denied+hits, who.Denied+hits, now.Denied+hits
	}
	if !admitted {
		return
	}
	r.Admitted += hits
	for i, log := range who.admitted {
		log.Add(window.Instant(at), int64(hits))
		r.Worst[i] = max(r.Worst[i], log.Sum(window.Instant(at)))
	}
}

const maxNamed = 5 // callers that a report names

// ranked returns the callers that were denied most.
func ranked(callers map[string]*caller) []*caller {
	all := slices.DeleteFunc(slices.Collect(maps.Values(callers)), func(c *caller) bool { return c.Denied == 0 })
	slices.SortFunc(all, func(a, b *caller) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Descriptor, b.Descriptor))
	})
	return all[:min(maxNamed, len(all))]
}
