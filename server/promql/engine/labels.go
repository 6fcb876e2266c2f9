package engine

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// errEnough ends the reading of names.
var errEnough = errors.New("there are as many as were asked for")

// LabelValues implements [storage.LabelQuerier]. Of series it reads nothing but the names, so that those without a
// sample in the time that is asked for are among them.
func (q *querier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) (
	[]string, annotations.Annotations, error) {
	return q.collect(ctx, hints, matchers, func(l labels.Label) string {
		if l.Name == name {
			return l.Value
		}
		return ""
	})
}

// LabelNames implements [storage.LabelQuerier], as LabelValues does.
func (q *querier) LabelNames(ctx context.Context, hints *storage.LabelHints, matchers ...*labels.Matcher) (
	[]string, annotations.Annotations, error) {
	return q.collect(ctx, hints, matchers, func(l labels.Label) string { return l.Name })
}

// collect gathers a text of each label of all series that match, but for empty ones, each once and in order.
func (q *querier) collect(ctx context.Context, hints *storage.LabelHints, matchers []*labels.Matcher,
	pick func(labels.Label) string) ([]string, annotations.Annotations, error) {
	defer func(before int) { q.held = before }(q.held)
	all := q.Select(ctx, false, &storage.SelectHints{Start: q.from, End: q.to, Func: "series"}, matchers...)
	seen := make(map[string]bool)
	for all.Next() {
		all.At().Labels().Range(func(l labels.Label) {
			if text := pick(l); text != "" {
				seen[text] = true
			}
		})
	}
	found, _ := hints.ApplyLimit(slices.Sorted(maps.Keys(seen)))
	return found, all.Warnings(), all.Err()
}
