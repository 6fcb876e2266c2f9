package rulestats

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weirproxy/weir/descriptors"
)

// ruleName returns the name by which envoyproxy/ratelimit's statistics call a rule, with its domain: entries are
// separated by dots, and each is its key, as configured, with the configured value or pattern if it has one, as in
// shop.user_ann.path. Entries whose values are told apart have the key and the value of d, which must match the rule.
// If d is nil, other stands for these values; if that is "" too, all is as configured. With noDots each dot of a key or a
// value is a _, so that dots separate entries alone.
func ruleName(r *descriptors.Rule, d descriptors.Descriptor, other string, noDots bool) string {
	var name strings.Builder
	name.WriteString(r.Domain)
	for i, segment := range strings.Split(r.Path, "/") {
		key, value, _ := strings.Cut(segment, "=")
		key, value = descriptors.ReadablePath(key), descriptors.ReadablePath(value)
		switch {
		case !slices.Contains(r.Values, i) || r.SharedPattern(i) != "": // one value, or all count as one
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

// ownName returns the name of the statistic of a descriptor that brings its own limit, with all of its values.
func ownName(domain string, d descriptors.Descriptor, noDots bool) string {
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

// escapeName returns a statistic's name as envoyproxy/ratelimit writes it: _ for what statsd gives a meaning, for dots
// of what looks like an IPv4 address, and for bytes that would break a line or are not UTF-8.
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
