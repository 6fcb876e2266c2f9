package curves

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// explain adds to an answer without hits where there are some, or what was perhaps meant.
func (h *History) explain(ctx context.Context, q *query, used *gathered, since, until *int64, warnings *[]string) error {
	if !used.found {
		more, err := h.hints(ctx, q)
		*warnings = append(*warnings, more...)
		return err
	}
	var err error
	*since, *until, err = h.stored(ctx, q, used)
	return err
}

const (
	maxHints    = 5      // names that a hint lists
	maxMeant    = 10_000 // names that are kept to choose from
	keepsValues = "value_to_metric: true or detailed_metric: true"
)

// names are what a hint may list, as people are shown them.
type names map[string]struct{}

func (n names) add(name string) {
	if len(n) < maxMeant {
		n[name] = struct{}{}
	}
}

// list writes the first names, in order, and how many more there are. Of more names than can be listed, those that hold
// a text go first, and the one that is nearest to it.
func (n names) list(asked string) string {
	all := slices.Sorted(maps.Keys(n))
	if len(all) > maxHints {
		nearest := descriptors.Nearest(asked, all)
		slices.SortStableFunc(all, func(a, b string) int {
			rank := func(name string) int {
				if name == nearest || descriptors.Holds(name, asked) {
					return 0
				}
				return 1
			}
			return rank(a) - rank(b)
		})
	}
	more := ""
	if hidden := len(all) - maxHints; hidden > 0 {
		all, more = all[:maxHints], fmt.Sprintf(" and %d more", hidden)
	}
	return strings.Join(all, ", ") + more
}

// kept is which names the history has that are near to those of a question.
type kept struct {
	domains   names // all
	paths     names // in the domain asked for, that hold the path asked for
	elsewhere names // other domains, that have the path asked for
	values    names // of the path asked for, in the domain asked for
	rule      bool  // there is such a path in that domain
}

// hints returns a sentence that says which name of a question that finds nothing is unknown, and which are near.
func (h *History) hints(ctx context.Context, q *query) ([]string, error) {
	if q.Domain == nil && q.Path == nil && q.Value == nil {
		return nil, nil
	}
	k := kept{domains: names{}, paths: names{}, elsewhere: names{}, values: names{}}
	// Series answer whatever the range is: one without points is the cheapest.
	err := h.store.Query(ctx, history.Query{From: 0, To: 1}, func(s history.Series) error {
		if !s.Unnamed {
			k.see(q, &s.ID)
		}
		return nil
	})
	if sentence := k.sentence(q); err == nil && sentence != "" {
		return []string{sentence}, nil
	}
	return nil, err
}

func (k *kept) see(q *query, id *history.ID) {
	k.domains.add(id.Domain)
	here := q.Domain == nil || *q.Domain == id.Domain
	switch same := q.hasPath(id.Path); {
	case here && same:
		if k.rule = true; id.Value != "" {
			k.values.add(descriptors.ReadablePath(id.Value))
		}
	case here && (descriptors.Holds(id.Path, *q.Path) || descriptors.Holds(descriptors.ReadablePath(id.Path), *q.Path)):
		k.paths.add(descriptors.ReadablePath(id.Path))
	case same && q.Path != nil:
		k.elsewhere.add(id.Domain)
	}
}

// sentence returns "" if nothing that is near is known.
func (k *kept) sentence(q *query) string {
	if q.Domain != nil {
		if _, known := k.domains[*q.Domain]; !known {
			if len(k.domains) == 0 {
				return ""
			}
			return fmt.Sprintf("There is no history of domain %s; there is of %s.", *q.Domain, k.domains.list(*q.Domain))
		}
	}
	switch {
	case q.Path != nil && !k.rule && len(k.paths) > 0:
		return fmt.Sprintf("No rule has the path %s; these hold it: %s.", *q.Path, k.paths.list(*q.Path))
	case q.Path != nil && !k.rule && len(k.elsewhere) > 0:
		return fmt.Sprintf("Domain %s has no rule %s; there is one in %s.", *q.Domain, *q.Path, k.elsewhere.list(*q.Domain))
	case q.Value == nil || !k.rule:
		return ""
	case len(k.values) == 0:
		return "No values are kept of this: a rule keeps those of its entries with " + keepsValues + "."
	}
	return fmt.Sprintf("The value %s is not kept; these are: %s.", *q.Value, k.values.list(*q.Value))
}
