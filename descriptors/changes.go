package descriptors

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Changes says for people in what the configuration differs from the one before it, a line for each rule, or for a whole
// domain: shop user: 10/minute → 20/minute. Domains are in order, rules in that of files, and those that are gone last.
func (c *Config) Changes(before *Config) []string {
	var all []string
	names := slices.Sorted(slices.Values(append(before.DomainNames(), c.DomainNames()...)))
	for _, name := range slices.Compact(names) {
		switch was, is := before.domains[name], c.domains[name]; {
		case was == nil:
			all = append(all, fmt.Sprintf("%s: a new domain, rules: %d", Shown(name), len(is.rules)))
		case is == nil:
			all = append(all, fmt.Sprintf("%s: the domain is gone, rules: %d", Shown(name), len(was.rules)))
		case was != is && was.contentSum() != is.contentSum():
			all = append(all, is.changes(was)...)
		}
	}
	return all
}

// changes returns the lines of a domain that is not as it was.
func (d *Domain) changes(was *Domain) []string {
	var all []string
	add := func(r *Rule, change string) {
		all = append(all, Shown(d.Name)+" "+Shown(ReadablePath(r.Path))+": "+change)
	}
	gone := make(map[string]*Rule, len(was.rules))
	for _, r := range was.rules {
		gone[r.Path] = r
	}
	for _, r := range d.rules {
		if old := gone[r.Path]; old == nil {
			add(r, "new, "+r.limits())
		} else if change := r.change(*old); change != "" {
			add(r, change)
		}
		delete(gone, r.Path)
	}
	for _, path := range slices.Sorted(maps.Keys(gone)) {
		add(gone[path], "gone, was "+gone[path].limits())
	}
	if len(all) == 0 {
		all = append(all, Shown(d.Name)+": other than its rules: what passes, the order of patterns, or refund_on_deny")
	}
	return all
}

// change says what is other than in a former rule of the same path; "" if nothing is.
func (r *Rule) change(was Rule) string {
	var parts []string
	for _, word := range []struct {
		key string
		say func(*Rule) string
	}{
		{"", (*Rule).limits},
		{"", func(r *Rule) string { return r.each(func(l Limit) string { return l.Algorithm.String() }) }},
		{"shadow_mode: ", func(r *Rule) string { return fmt.Sprint(r.Shadow) }},
		{"quota_mode: ", func(r *Rule) string { return fmt.Sprint(r.Quota) }},
		{"on_backend_failure: ", func(r *Rule) string { return r.OnFailure.String() }},
		{"message: ", func(r *Rule) string { return Quoted(r.Message) }},
	} {
		if from, to := word.say(&was), word.say(r); from != to {
			parts = append(parts, word.key+from+" → "+to)
		}
	}
	was.Where, was.Number = r.Where, r.Number
	if len(parts) == 0 && !reflect.DeepEqual(was, *r) {
		parts = append(parts, r.limits()+" as before, other keys changed")
	}
	return strings.Join(parts, ", ")
}

// limits returns a rule's limits as people write them.
func (r *Rule) limits() string {
	if r.Unlimited {
		return "unlimited"
	}
	return r.each(Limit.String)
}

// each joins what is said of each limit.
func (r *Rule) each(say func(Limit) string) string {
	all := make([]string, len(r.Limits))
	for i := range r.Limits {
		all[i] = say(r.Limits[i])
	}
	return strings.Join(all, " and ")
}
