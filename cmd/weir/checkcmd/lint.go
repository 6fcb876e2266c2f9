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
			for j := range r.Limits {
				l, by := &r.Limits[i], &r.Limits[j]
				without := func(o *descriptors.Rule) bool { // beside o, l stands without by
					return o.Domain == r.Domain && by.ReplacedBy(o.Replaces) && !l.ReplacedBy(o.Replaces)
				}
				if i == j || !by.Covers(l) || j > i && l.Covers(by) || slices.ContainsFunc(replacing, without) {
					continue // of two that are alike the later one is told
				}
				file, line := place(r.Where)
				text := fmt.Sprintf("%s never denies what %s beside it lets pass: leave it out, or correct one of the two",
					descriptors.DescribeLimits(*l), descriptors.DescribeLimits(*by))
				all = append(all, yaml.Problem{File: file, Line: line, Domain: r.Domain, Path: r.Path, Text: text, Warning: true})
				break
			}
		}
	}
	return all
}
