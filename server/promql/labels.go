package promql

import (
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
	from, to int64               // Unix milliseconds
	sets     [][]*labels.Matcher // at least one
	limit    int
}

// selected reads what series and labels have in common.
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
	if s.sets, refused = r.matchers(h.parser); len(s.sets) == 0 {
		s.sets = [][]*labels.Matcher{nil}
	}
	return s, refused
}

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
	return h.texts(r, func(l labels.Label) string { return l.Name })
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
	return h.texts(r, func(l labels.Label) string {
		if l.Name == name {
			return l.Value
		}
		return ""
	})
}

// texts answers with a text of each label of the series that match, but for empty ones, each once and sorted.
func (h *Handler) texts(r *request, pick func(labels.Label) string) *answer {
	found := make(map[string]bool)
	see := func(l labels.Labels) {
		l.Range(func(l labels.Label) {
			if text := pick(l); text != "" {
				found[text] = true
			}
		})
	}
	return list(h, r, see, func() []string { return slices.Sorted(maps.Keys(found)) })
}

// list shows the labels of all series that match, and answers with what was made of them, as far as the limit allows.
func list[T any](h *Handler, r *request, see func(labels.Labels), made func() []T) *answer {
	s, refused := h.selected(r)
	if refused != nil {
		return refused
	}
	q := h.engine.Querier(s.from, s.to)
	// No function has that name: by it a querier knows that no samples are needed.
	hints := &storage.SelectHints{Start: s.from, End: s.to, Func: "series"}
	var notes annotations.Annotations
	for _, set := range s.sets {
		all := q.Select(r.Context(), false, hints, set...)
		for all.Next() {
			see(all.At().Labels())
		}
		if err := errors.Join(all.Err(), r.Context().Err()); err != nil {
			return fail(err)
		}
		notes.Merge(all.Warnings())
	}
	a, items := &answer{}, made()
	a.warnings, a.infos = notes.AsStrings("", maxNotes, maxNotes)
	if len(items) > s.limit {
		items, a.warnings = items[:s.limit], append(a.warnings, truncated)
	}
	a.data = func(e *encoder) { e.each(len(items), func(i int) { e.json(items[i]) }) }
	return a
}
