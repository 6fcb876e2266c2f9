package promql

import (
	"errors"
	"maps"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// maxListed is the most series, names or values of a list.
const maxListed = 100_000

// series answers with the labels of the series that match.
func (h *Handler) series(r *request) *answer {
	if len(r.Form["match[]"]) == 0 {
		return refuse(badData, "no match[] parameter provided")
	}
	found := make(map[string]labels.Labels)
	return list(h, r, func(l labels.Labels) { found[l.String()] = l }, func() []labels.Labels {
		return slices.SortedFunc(maps.Values(found), labels.Compare)
	})
}

// labels answers with the names of the labels of the series that match.
func (h *Handler) labels(r *request) *answer {
	return h.distinct(r, func(l labels.Label) string { return l.Name })
}

// labelValues answers with the values of a label of the series that match.
func (h *Handler) labelValues(r *request) *answer {
	name := r.PathValue("name")
	if !model.UTF8Validation.IsValidLabelName(name) {
		return refuse(badData, "invalid label name: %q", clip(name))
	}
	return h.distinct(r, func(l labels.Label) string {
		if l.Name == name {
			return l.Value
		}
		return ""
	})
}

// distinct answers with the texts that pick returns for the labels of matching series: sorted, each once, without empty ones.
func (h *Handler) distinct(r *request, pick func(labels.Label) string) *answer {
	found := make(map[string]bool)
	visit := func(l labels.Labels) {
		l.Range(func(l labels.Label) {
			if text := pick(l); text != "" {
				found[text] = true
			}
		})
	}
	return list(h, r, visit, func() []string { return slices.Sorted(maps.Keys(found)) })
}

// list calls visit with the labels of all matching series, and then answers with its items, up to maxListed.
func list[T any](h *Handler, r *request, visit func(labels.Labels), items func() []T) *answer {
	sets := r.matchers(h.parser)
	if r.refused != nil {
		return r.refused
	}
	q := h.engine.Querier()
	var notes annotations.Annotations
	for _, set := range sets {
		all := q.Select(r.Context(), false, &storage.SelectHints{Func: "series"}, set...) // without samples
		for all.Next() {
			visit(all.At().Labels())
		}
		if err := errors.Join(all.Err(), r.Context().Err()); err != nil {
			return fail(err)
		}
		notes.Merge(all.Warnings())
	}
	listed := items()
	warnings, infos := notes.AsStrings("", maxNotes, maxNotes)
	if len(listed) > maxListed {
		listed, warnings = listed[:maxListed], append(warnings, "results truncated due to limit")
	}
	return &answer{warnings: warnings, infos: infos, data: func(e *encoder) {
		e.each(len(listed), func(i int) { e.json(listed[i]) })
	}}
}
