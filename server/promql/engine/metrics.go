package engine

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/weirproxy/weir/backend/history"
)

// The metrics. Those of /metrics have the same names there.
const (
	HitsTotal     = "weir_hits_total"
	NearTotal     = "weir_near_hits_total"
	HitsPeak      = "weir_hits_peak"
	LimitRequests = "weir_limit_requests"
)

// The labels.
const (
	nameLabel    = "__name__" // of the metric
	domainLabel  = "domain"
	pathLabel    = "path" // of a rule, escaped
	outcomeLabel = "outcome"
	valueLabel   = "value" // only if the series has one
	limitLabel   = "limit"
)

// counterLabels returns the labels of the counter of a series.
func counterLabels(id history.ID) labels.Labels {
	counter, outcome := HitsTotal, id.Outcome.String()
	if id.Outcome == history.Near {
		counter, outcome = NearTotal, ""
	}
	return labels.FromStrings(nameLabel, counter, domainLabel, id.Domain, outcomeLabel, outcome, pathLabel, id.Path,
		valueLabel, valueOf(id)).WithoutEmpty()
}

// valueOf returns the value of a series for the label: without its key if the path tells the key.
func valueOf(id history.ID) string {
	levels := strings.Split(id.Path, "/")
	open := slices.DeleteFunc(slices.Clone(levels), func(level string) bool { return strings.Contains(level, "=") })
	if len(open) == 0 {
		open = levels
	}
	key, value, found := strings.Cut(id.Value, "=")
	named, _, _ := strings.Cut(open[0], "=")
	if found && len(open) == 1 && named == key && !strings.Contains(value, ",") {
		return value
	}
	return id.Value
}

// peakLabels returns the labels of the gauge of a series' largest minutes.
func peakLabels(id history.ID) labels.Labels {
	return labels.FromStrings(nameLabel, HitsPeak, domainLabel, id.Domain, outcomeLabel, id.Outcome.String(), pathLabel, id.Path,
		valueLabel, valueOf(id)).WithoutEmpty()
}

// sampleSize is the memory of a sample in bytes.
const sampleSize = int(unsafe.Sizeof(history.Sample{}))

// nameCost returns the memory of a name in a result, with its pointers, in samples.
func nameCost(name labels.Labels) int { return (220 + int(name.ByteSize())) / sampleSize }

// queryFor returns a query for all series that the matchers can match, and reports whether there can be any.
func queryFor(matchers labels.Selector) (history.Query, bool) {
	var q history.Query
	var ofMetric labels.Selector // the matchers of labels that are known without reading
	for _, m := range matchers {
		switch m.Name {
		case domainLabel, pathLabel, valueLabel:
			if m.Type == labels.MatchEqual {
				part := m.Value
				*map[string]**string{domainLabel: &q.Domain, pathLabel: &q.Path, valueLabel: &q.Value}[m.Name] = &part
			}
		default:
			ofMetric = append(ofMetric, m)
		}
	}
	for o := range history.Outcome(history.Outcomes) {
		id := history.ID{Outcome: o}
		if matches(ofMetric, counterLabels(id)) || matches(ofMetric, peakLabels(id)) {
			q.Outcomes = append(q.Outcomes, o)
		}
	}
	return q, len(q.Outcomes) > 0
}
