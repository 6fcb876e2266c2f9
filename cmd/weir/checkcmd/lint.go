package checkcmd

import (
	"fmt"
	"slices"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// replacingRules has the rules that replace a limit, by its domain and name. A file may have 100,000 of them.
type replacingRules map[[2]string][]*descriptors.Rule

// ineffective warns of each limit that never denies, as another limit of its rule covers it whenever it applies.
func ineffective(config *descriptors.Config) (all yaml.Problems) {
	replacing := make(replacingRules)
	for _, r := range config.Rules() {
		for _, name := range r.Replaces {
			replacing[[2]string{r.Domain, name}] = append(replacing[[2]string{r.Domain, name}], r)
		}
	}
	for _, r := range config.Rules() {
		for i := range r.Limits {
			by := coverOf(r, i, replacing)
			if by == nil {
				continue
			}
			file, line := splitPlace(r.Where)
			text := fmt.Sprintf("%s never denies what %s beside it lets pass: leave it out, or correct one of the two",
				descriptors.DescribeLimits(r.Limits[i]), descriptors.DescribeLimits(*by))
			all = append(all, yaml.Problem{File: file, Line: line, Domain: r.Domain, Path: r.Path, Text: text, Warning: true})
		}
	}
	return all
}

// coverOf returns a limit of the rule that covers the i-th one, nil for none. Of two equal limits the earlier one
// covers the later. A limit does not cover another one that applies without it in requests that match a replacing rule.
func coverOf(r *descriptors.Rule, i int, replacing replacingRules) *descriptors.Limit {
	l := &r.Limits[i]
	for j := range r.Limits {
		by := &r.Limits[j]
		if j == i || !by.Covers(l) || j > i && l.Covers(by) {
			continue
		}
		holdsAlone := slices.ContainsFunc(replacing[[2]string{r.Domain, by.Name}], func(o *descriptors.Rule) bool {
			return !l.ReplacedBy(o.Replaces)
		})
		if !holdsAlone {
			return by
		}
	}
	return nil
}
