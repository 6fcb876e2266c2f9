package yaml

import (
	"net/netip"
	"regexp"
	"slices"

	"github.com/weirproxy/weir/descriptors"
)

// warnOfLookalike warns of a value that was meant to match more than its text. Files without lines come from a program,
// which means what it writes.
func (p *parser) warnOfLookalike(m mapping, key, value, path string) {
	if p.options.NoLines || value == "" || value == key || slices.Contains(literalKeys, key) || len(value) > maxComparedBytes {
		return
	}
	if text := lookalike(key, value); text != "" {
		p.warnf(m.at("value"), path, "value %s %s", descriptors.Shown(value), text)
	}
}

// literalKeys are those for which Envoy's own configuration holds the value, so that it may be any text: the default ones
// of its actions generic_key, header_value_match and query_parameter_value_match, and the range that an address is in.
var literalKeys = []string{"generic_key", "header_match", "query_match", "masked_remote_address"}

var (
	// A regular expression: anchored, all there is, below a path, a class or an escape that is repeated, or a choice.
	expression = regexp.MustCompile(`^\^|^\.[*+]$|^/.+/\.[*+]|\[[^\]]+\][*+{]|\\[dwsDWS][*+{]|\\\.|\([^()]*\|[^()]*\)`)
	// Keys whose values are names of ranges, rather than addresses.
	namesRange = regexp.MustCompile(`(?i)cidr|net|range|block|zone`)
)

// lookalike returns what a value is taken for, and what would be right; "" if it means what it says.
func lookalike(key, value string) string {
	if prefix, err := netip.ParsePrefix(value); err == nil && !namesRange.MatchString(key) {
		mask := "v4_prefix_mask_len"
		if prefix.Addr().Is6() {
			mask = "v6_prefix_mask_len"
		}
		return "matches only that text, not the addresses in it: have Envoy send the range that an address is in, by its action " +
			"masked_remote_address with " + mask + ", and use the key masked_remote_address"
	}
	if expression.MatchString(value) {
		return "looks like a regular expression, but matches as it is written: only * has a meaning, which is any characters or none"
	}
	return ""
}
