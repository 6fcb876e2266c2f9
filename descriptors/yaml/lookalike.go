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
	if p.options.NoLines || value == key || slices.Contains(literalKeys, key) {
		return
	}
	if _, err := netip.ParsePrefix(value); err == nil && !namesRange.MatchString(key) {
		p.warnf(m.at("value"), path, "value %s matches only that text, not the addresses in it: have Envoy send the range that an "+
			"address is in, by its action masked_remote_address with v4_prefix_mask_len or v6_prefix_mask_len, and use the key "+
			"masked_remote_address", descriptors.Shown(value))
	} else if expression.MatchString(value) {
		p.warnf(m.at("value"), path, "value %s looks like a regular expression, but matches as it is written: only * has a "+
			"meaning, which is any characters or none", descriptors.Shown(value))
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
