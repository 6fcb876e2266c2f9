package promql

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// maxListed is how many series, names or values are listed at most, whatever limit says.
const maxListed = 100_000

// selection is what a request asks for series or labels of.
type selection struct {
	storage.Querier
	from, to int64 // Unix milliseconds
	sets     [][]*labels.Matcher
	limit    int
}

// selected reads what series and labels have in common. The querier must be closed.
func (h *Handler) selected(r *request) (s selection, refused *answer) {
	if s.limit, refused = r.limit(); refused != nil {
		return s, refused
	}
	if s.limit == 0 || s.limit > maxListed {
		s.limit = maxListed
	}
	if s.from, s.to, refused = r.span(); refused != nil {
		return s, refused
	}
	if s.sets, refused = r.matchers(h.parser); refused != nil {
		return s, refused
	}
	var err error
	if s.Querier, err = h.engine.Querier(s.from, s.to); err != nil {
		return s, fail(err)
	}
	return s, nil
}

// series answers with the labels of the series that match.
func (h *Handler) series(r *request) *answer {
	if len(r.Form["match[]"]) == 0 {
		return refuse(badData, "no match[] parameter provided")
	}
	s, refused := h.selected(r)
	if refused != nil {
		return refused
	}
	defer s.Close()
	// No function has that name: by it a querier knows that no samples are needed.
	hints := &storage.SelectHints{Start: s.from, End: s.to, Func: "series", Limit: s.limit + 1}
	sets := make([]storage.SeriesSet, len(s.sets))
	for i, set := range s.sets {
		sets[i] = s.Select(r.Context(), len(s.sets) > 1, hints, set...)
	}
	all := sets[0]
	if len(sets) > 1 {
		all = storage.NewMergeSeriesSet(sets, 0, storage.ChainedSeriesMerge)
	}
	found := make([]labels.Labels, 0, 16)
	for len(found) <= s.limit && all.Next() {
		found = append(found, all.At().Labels())
	}
	if err := errors.Join(all.Err(), r.Context().Err()); err != nil {
		return fail(err)
	}
	a := noted(all.Warnings())
	if len(found) > s.limit {
		found, a.warnings = found[:s.limit], append(a.warnings, truncated)
	}
	a.data = func(e *encoder) { e.each(len(found), func(i int) { e.json(found[i]) }) }
	return a
}

// labels answers with the names of the labels of the series that match.
func (h *Handler) labels(r *request) *answer {
	s, refused := h.selected(r)
	if refused != nil {
		return refused
	}
	return s.list(r.Context(), func(hints *storage.LabelHints, set []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return s.LabelNames(r.Context(), hints, set...)
	})
}

// labelValues answers with the values of a label of the series that match.
func (h *Handler) labelValues(r *request) *answer {
	name := r.PathValue("name")
	if strings.HasPrefix(name, "U__") {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !model.UTF8Validation.IsValidLabelName(name) {
		return refuse(badData, "invalid label name: %q", clip(name))
	}
	s, refused := h.selected(r)
	if refused != nil {
		return refused
	}
	return s.list(r.Context(), func(hints *storage.LabelHints, set []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return s.LabelValues(r.Context(), name, hints, set...)
	})
}

// list answers with strings that are found for each set of matchers, each once, sorted. It closes the querier.
func (s *selection) list(ctx context.Context,
	find func(*storage.LabelHints, []*labels.Matcher) ([]string, annotations.Annotations, error)) *answer {
	defer s.Close()
	hints := &storage.LabelHints{Limit: s.limit + 1}
	sets := s.sets
	if len(sets) == 0 {
		sets = [][]*labels.Matcher{nil}
	}
	found := make(map[string]bool)
	var notes annotations.Annotations
	for _, set := range sets {
		all, more, err := find(hints, set)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fail(err)
		}
		notes.Merge(more)
		for _, one := range all {
			found[one] = true
		}
	}
	names := slices.Sorted(maps.Keys(found))
	a := noted(notes)
	if len(names) > s.limit {
		names, a.warnings = names[:s.limit], append(a.warnings, truncated)
	}
	a.data = func(e *encoder) { e.each(len(names), func(i int) { e.json(names[i]) }) }
	return a
}

// noted returns an answer with the warnings and infos of a querier.
func noted(notes annotations.Annotations) *answer {
	a := &answer{}
	a.warnings, a.infos = notes.AsStrings("", maxNotes, maxNotes)
	return a
}
