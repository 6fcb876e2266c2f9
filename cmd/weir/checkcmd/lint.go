package checkcmd

import (
	"fmt"
	"slices"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// ineffective warns of each limit that denies nothing, as another of its rule covers it wherever it holds.
func ineffective(config *descriptors.Config) (all yaml.Problems) {
	replacing := slices.DeleteFunc(slices.Clone(config.Rules()), func(r *descriptors.Rule) bool { return len(r.Replaces) == 0 })
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

// coverOf returns a limit that covers the i-th of its rule, nil for none. Of two that are alike the earlier one covers
// the later. None covers a limit that holds without it in requests which match one of the replacing rules.
func coverOf(r *descriptors.Rule, i int, replacing []*descriptors.Rule) *descriptors.Limit {
	l := &r.Limits[i]
	for j := range r.Limits {
		by := &r.Limits[j]
		if j == i || !by.Covers(l) || j > i && l.Covers(by) {
			continue
		}
		holdsAlone := slices.ContainsFunc(replacing, func(o *descriptors.Rule) bool {
			return o.Domain == r.Domain && by.ReplacedBy(o.Replaces) && !l.ReplacedBy(o.Replaces)
		})
		if !holdsAlone {
			return by
		}
	}
	return nil
}
