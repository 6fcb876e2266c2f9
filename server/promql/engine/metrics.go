package engine

import (
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/weirproxy/weir/backend/history"
)

// The metrics. Those that /metrics has as well have their names there.
const (
	HitsTotal     = "weir_hits_total"
	NearTotal     = "weir_near_hits_total"
	ShadowTotal   = "weir_shadow_hits_total"
	HitsPeak      = "weir_hits_peak"
	LimitRequests = "weir_limit_requests"
)

// The labels.
const (
	nameLabel    = "__name__" // of the metric
	domainLabel  = "domain"
	pathLabel    = "path" // of a rule, escaped
	outcomeLabel = "outcome"
	valueLabel   = "value" // only where a series has one
	limitLabel   = "limit"
)

// counters are the names of the counter of each outcome.
var counters = [history.Outcomes]string{history.Within: HitsTotal, history.Over: HitsTotal, history.Degraded: HitsTotal,
	history.Near: NearTotal, history.Shadow: ShadowTotal}

// identity is what a series is called, by label. An empty one is not there.
type identity struct{ metric, domain, limit, outcome, path, value string }

// counter returns what the counter of a series is called.
func counter(id history.ID) identity {
	i := identity{metric: counters[id.Outcome], domain: id.Domain, path: id.Path, value: id.Value}
	if i.metric == HitsTotal {
		i.outcome = id.Outcome.String()
	}
	return i
}

// peak returns what the gauge of a series' largest minutes is called.
func peak(id history.ID) identity {
	return identity{metric: HitsPeak, domain: id.Domain, path: id.Path, value: id.Value, outcome: id.Outcome.String()}
}

// each calls f with the labels that are there, in order.
func (i identity) each(f func(name, value string)) {
	for _, l := range [...]struct{ name, value string }{{nameLabel, i.metric}, {domainLabel, i.domain},
		{limitLabel, i.limit}, {outcomeLabel, i.outcome}, {pathLabel, i.path}, {valueLabel, i.value}} {
		if l.value != "" {
			f(l.name, l.value)
		}
	}
}

func (i identity) get(name string) (found string) {
	i.each(func(n, value string) {
		if n == name {
			found = value
		}
	})
	return found
}

func (i identity) matches(matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(i.get(m.Name)) {
			return false
		}
	}
	return true
}

func (i identity) labels() labels.Labels {
	b := labels.NewScratchBuilder(6)
	i.each(b.Add)
	return b.Labels()
}

// sampleSize is the memory of a sample in bytes.
const sampleSize = int(unsafe.Sizeof(history.Sample{}))

// cost returns how many samples' memory a name takes in a result, with what points to it.
func (i identity) cost() int {
	return (300 + len(i.domain) + len(i.limit) + len(i.path) + len(i.value)) / sampleSize
}

// longest returns the length of the longest label, in bytes.
func (i identity) longest() (most int) {
	i.each(func(_, value string) { most = max(most, len(value)) })
	return most
}

// asks returns the query that is about all series that matchers can match, and reports whether there can be any.
func asks(matchers []*labels.Matcher) (history.Query, bool) {
	var q history.Query
	var named []*labels.Matcher // those about what is known before anything is read
	for _, m := range matchers {
		switch m.Name {
		case domainLabel, pathLabel, valueLabel:
			if m.Type == labels.MatchEqual {
				part := m.Value
				*map[string]**string{domainLabel: &q.Domain, pathLabel: &q.Path, valueLabel: &q.Value}[m.Name] = &part
			}
		default:
			named = append(named, m)
		}
	}
	for o := range history.Outcome(history.Outcomes) {
		id := history.ID{Outcome: o}
		if counter(id).matches(named) || peak(id).matches(named) {
			q.Outcomes = append(q.Outcomes, o)
		}
	}
	return q, len(q.Outcomes) > 0
}
