package rulestats

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weirproxy/weir/descriptors"
)

// ruleName returns the name of a rule in envoyproxy/ratelimit's statistics, such as shop.user_ann.path: the domain and
// the entries, separated by dots; an entry is its key and, if there is one, the configured value or pattern. Entries
// whose values have separate counters get the key and value of d, which must match the rule. If d is nil, other replaces
// these values; if other is "", they are as configured. With noDots, dots in keys and values become _, so that dots
// only separate entries.
func ruleName(r *descriptors.Rule, d descriptors.Descriptor, other string, noDots bool) string {
	var name strings.Builder
	name.WriteString(r.Domain)
	for i, segment := range strings.Split(r.Path, "/") {
		key, value, _ := strings.Cut(segment, "=")
		key, value = descriptors.ReadablePath(key), descriptors.ReadablePath(value)
		switch {
		case !slices.Contains(r.Values, i) || r.SharedPattern(i) != "": // one value, or a pattern whose values share a counter
		case d != nil:
			key, value = d[i].Key, d[i].Value
		case other != "" && (value == "" || strings.Contains(value, "*")):
			value = other
		}
		if value != "" {
			key += "_" + value
		}
		if noDots {
			key = strings.ReplaceAll(key, ".", "_")
		}
		name.WriteByte('.')
		name.WriteString(key)
	}
	return escapeName(name.String())
}

// overrideName returns the name of the statistic of a descriptor with an override, with all its values.
func overrideName(domain string, d descriptors.Descriptor, noDots bool) string {
	name := domain
	for i := range d {
		segment := d[i].Key
		if d[i].Value != "" {
			segment += "_" + d[i].Value
		}
		if noDots {
			segment = strings.ReplaceAll(segment, ".", "_")
		}
		name += "." + segment
	}
	return escapeName(name)
}

var dottedAddress = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)

// escapeName returns a statistic's name as envoyproxy/ratelimit writes it: _ replaces statsd's separators, the dots of
// IPv4 addresses, control characters and invalid UTF-8.
func escapeName(name string) string {
	name = strings.Map(func(c rune) rune {
		if c == ':' || c == '|' || c < ' ' || c == 0x7f || c == utf8.RuneError {
			return '_'
		}
		return c
	}, name)
	return dottedAddress.ReplaceAllStringFunc(name, func(address string) string {
		return strings.ReplaceAll(address, ".", "_")
	})
}
