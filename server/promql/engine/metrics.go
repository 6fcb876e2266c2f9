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

// labelsOf returns labels of names and values in turn, in order. An empty one is not there.
func labelsOf(pairs ...string) labels.Labels {
	b := labels.NewScratchBuilder(len(pairs) / 2)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			b.Add(pairs[i], pairs[i+1])
		}
	}
	return b.Labels()
}

// counter returns the labels of the counter of a series.
func counter(id history.ID) labels.Labels {
	outcome := ""
	if counters[id.Outcome] == HitsTotal {
		outcome = id.Outcome.String()
	}
	return labelsOf(nameLabel, counters[id.Outcome], domainLabel, id.Domain, outcomeLabel, outcome, pathLabel, id.Path, valueLabel, id.Value)
}

// peak returns the labels of the gauge of a series' largest minutes.
func peak(id history.ID) labels.Labels {
	return labelsOf(nameLabel, HitsPeak, domainLabel, id.Domain, outcomeLabel, id.Outcome.String(), pathLabel, id.Path, valueLabel, id.Value)
}

func matches(name labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(name.Get(m.Name)) {
			return false
		}
	}
	return true
}

// sampleSize is the memory of a sample in bytes.
const sampleSize = int(unsafe.Sizeof(history.Sample{}))

// costOf returns how many samples' memory a name takes in a result, with what points to it.
func costOf(name labels.Labels) int { return (220 + int(name.ByteSize())) / sampleSize }

// queryFor returns the query that is about all series that matchers can match, and reports whether there can be any.
func queryFor(matchers []*labels.Matcher) (history.Query, bool) {
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
		if matches(counter(id), named) || matches(peak(id), named) {
			q.Outcomes = append(q.Outcomes, o)
		}
	}
	return q, len(q.Outcomes) > 0
}
