package descriptors

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Changes describes how the configuration differs from an earlier one, in a line for each rule, or for a whole domain:
// shop user: 10/minute → 20/minute. Domains are sorted; rules are in the order of files, with removed ones last.
func (c *Config) Changes(before *Config) []string {
	var all []string
	names := slices.Sorted(slices.Values(append(before.DomainNames(), c.DomainNames()...)))
	for _, name := range slices.Compact(names) {
		switch was, now := before.domains[name], c.domains[name]; {
		case was == nil:
			all = append(all, fmt.Sprintf("%s: a new domain, rules: %d", Abbreviate(name), len(now.rules)))
		case now == nil:
			all = append(all, fmt.Sprintf("%s: the domain is gone, rules: %d", Abbreviate(name), len(was.rules)))
		case was != now && was.contentSum() != now.contentSum():
			all = append(all, now.changes(was)...)
		}
	}
	return all
}

// changes returns the lines of a changed domain.
func (d *Domain) changes(was *Domain) []string {
	var all []string
	add := func(r *Rule, change string) {
		all = append(all, Abbreviate(d.Name)+" "+Abbreviate(ReadablePath(r.Path))+": "+change)
	}
	gone := make(map[string]*Rule, len(was.rules))
	for _, r := range was.rules {
		gone[r.Path] = r
	}
	for _, r := range d.rules {
		if old := gone[r.Path]; old == nil {
			add(r, "new, "+r.Describe())
		} else if change := r.change(*old); change != "" {
			add(r, change)
		}
		delete(gone, r.Path)
	}
	for _, path := range slices.Sorted(maps.Keys(gone)) {
		add(gone[path], "gone, was "+gone[path].Describe())
	}
	if len(all) == 0 {
		all = append(all, Abbreviate(d.Name)+": other than its rules: what passes, the order of patterns, or refund_on_deny")
	}
	return all
}

// change describes how a rule differs from an earlier one of the same path; "" if it does not.
func (r *Rule) change(was Rule) string {
	if from, to := was.Describe(), r.Describe(); from != to {
		return from + " → " + to
	}
	if was.Where, was.Number = r.Where, r.Number; reflect.DeepEqual(was, *r) {
		return ""
	}
	return r.Describe() + " as before, other keys changed"
}
