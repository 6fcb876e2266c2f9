package query

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

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
// a text go first.
func (n names) list(asked string) string {
	all := slices.Sorted(maps.Keys(n))
	if len(all) <= maxHints {
		return strings.Join(all, ", ")
	}
	rank := func(name string) int {
		if descriptors.Holds(name, asked) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b string) int { return rank(a) - rank(b) })
	return fmt.Sprintf("%s and %d more", strings.Join(all[:maxHints], ", "), len(all)-maxHints)
}

// Hints returns a sentence that says which name of a question that finds nothing is unknown, and which there are.
func (h *History) Hints(ctx context.Context, q *Question) ([]string, error) {
	if q.Domain == nil && q.Path == nil && q.Value == nil {
		return nil, nil
	}
	domains, paths, elsewhere, values := names{}, names{}, names{}, names{}
	ruleFound, domainFound := false, false
	// Series answer whatever the range is: one without points is the cheapest.
	err := h.store.Query(ctx, history.Query{From: 0, To: 1}, func(s history.Series) error {
		if s.Unnamed {
			return nil
		}
		domains.add(s.ID.Domain)
		here, asked := q.Domain == nil || *q.Domain == s.ID.Domain, same(s.ID.Path, q.Path)
		domainFound = domainFound || here
		switch {
		case here && asked:
			if ruleFound = true; s.ID.Value != "" {
				values.add(descriptors.ReadablePath(s.ID.Value))
			}
		case here && (descriptors.Holds(s.ID.Path, *q.Path) || descriptors.Holds(descriptors.ReadablePath(s.ID.Path), *q.Path)):
			paths.add(descriptors.ReadablePath(s.ID.Path))
		case asked && q.Path != nil:
			elsewhere.add(s.ID.Domain)
		}
		return nil
	})
	hint := ""
	switch {
	case err != nil || len(domains) == 0:
		return nil, err
	case !domainFound:
		hint = fmt.Sprintf("There is no history of domain %s; there is of %s.", *q.Domain, domains.list(*q.Domain))
	case !ruleFound && len(paths) > 0:
		hint = fmt.Sprintf("No rule has the path %s; these hold it: %s.", *q.Path, paths.list(*q.Path))
	case !ruleFound && len(elsewhere) > 0:
		hint = fmt.Sprintf("Domain %s has no rule %s; there is one in %s.", *q.Domain, *q.Path, elsewhere.list(*q.Domain))
	case q.Value == nil || !ruleFound:
		return nil, nil
	case history.HidesValues(ctx):
		hint = Hidden
	case len(values) == 0:
		hint = "No values are kept of this: a rule keeps those of its entries with " + keepsValues + "."
	default:
		hint = fmt.Sprintf("The value %s is not kept; these are: %s.", *q.Value, values.list(*q.Value))
	}
	return []string{hint}, nil
}
