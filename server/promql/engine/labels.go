package engine

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/weirproxy/weir/backend/history"
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
	seen := make(map[string]bool)
	look := func(name labels.Labels, _ uint64) error {
		if !matches(name, matchers) {
			return nil
		}
		return name.Validate(func(l labels.Label) error {
			text := pick(l)
			if text == "" || seen[text] {
				return nil
			}
			seen[text] = true
			if hints.AllowsEarlyStop() && len(seen) >= hints.Limit {
				return errEnough
			}
			return q.hold((64 + len(text)) / sampleSize)
		})
	}
	err := q.eachLimit(look)
	if query, any := asks(matchers); any && err == nil {
		err = q.ask(ctx, query, func(s history.Series) error {
			if s.Unnamed {
				q.remarks.damaged.Add(&s)
				return nil
			}
			if err := look(counter(s.ID), 0); err != nil {
				return err
			}
			return look(peak(s.ID), 0)
		})
	}
	if err != nil && !errors.Is(err, errEnough) {
		return nil, q.remarks.annotations(), err
	}
	found, _ := hints.ApplyLimit(slices.Sorted(maps.Keys(seen)))
	return found, q.remarks.annotations(), nil
}
