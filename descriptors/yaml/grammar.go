package yaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirproxy/weir/descriptors"
)

// keySet has the keys of a kind of mapping, which descriptors/schema.json has too, and the name of the kind in
// messages.
type keySet struct {
	name string
	keys []string
}

var (
	inFile       = &keySet{"the file", []string{"domain", "descriptors", "refund_on_deny"}}
	inDescriptor = &keySet{"a descriptor", []string{"key", "value", "rate_limit", "rate_limits", "descriptors",
		"shadow_mode", "quota_mode", "charge", "on_backend_failure", "lease", "message", "metadata", "detailed_metric",
		"value_to_metric", "share_threshold"}}
	inListItem = &keySet{"an item of rate_limits", []string{"requests_per_unit", "unit", "unit_multiplier", "algorithm",
		"precision", "burst", "name", "replaces"}}
	inRateLimit = &keySet{"rate_limit", append(slices.Clip(inListItem.keys), "unlimited")}
	inReplaces  = &keySet{"an item of replaces", []string{"name"}}
)

func (in *keySet) has(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && slices.Contains(in.keys, key.Value)
}

// rightPlaces says where a misplaced key belongs: in the first kind of mapping that has it.
var rightPlaces = []struct {
	in    *keySet
	where string
}{
	{inDescriptor, "in a descriptor, beside its key"},
	{inFile, "at the top of the file"},
	{inListItem, "inside rate_limit"},
	{inRateLimit, "in rate_limit: {unlimited: true}"},
}

// ratelimitKeys are the keys of envoyproxy/ratelimit, which accepts them everywhere and ignores them where they have no
// meaning.
var ratelimitKeys = []string{"domain", "key", "value", "descriptors", "rate_limit", "unit", "requests_per_unit", "unlimited",
	"shadow_mode", "quota_mode", "name", "replaces", "detailed_metric", "value_to_metric", "share_threshold", "metadata"}

// limitKeys has envoyproxy/ratelimit's keys of a limit, each with the remedy if it is given twice, "" for the default
// remedy.
var limitKeys = map[string]string{"rate_limit": "write rate_limits: for both", "rate_limits": "write one list for both",
	"descriptors": "write one list for both", "unit": "", "requests_per_unit": "", "unlimited": ""}

// lostLimitf adds an error about a limit that has no effect, or a warning if the options are lenient.
func (p *parser) lostLimitf(at *yaml.Node, format string, args ...any) {
	if p.options.Lenient {
		p.warnf(at, format, args...)
	} else {
		p.errorf(at, format, args...)
	}
}

// checkKeys adds problems for unknown and repeated keys of m.
func (p *parser) checkKeys(m *mapping) {
	for _, key := range m.unknown {
		name := key.Value
		_, limits := limitKeys[name]
		switch {
		case key.Kind != yaml.ScalarNode:
			p.errorf(key, "a key in %s must be a word, not %s", m.in.name, describe(key))
		case !slices.Contains(ratelimitKeys, name) || m.in == inListItem || limits && !p.options.Lenient:
			p.errorf(key, "%s", misplaced{name, m.in, "does not belong"})
		default:
			p.warnf(key, "%s", misplaced{name, m.in, "is ignored"})
		}
	}
	for _, a := range m.duplicates {
		remedy := cmp.Or(limitKeys[a[0].Value], "keep one, or put back the - of a list item")
		_, _, first := p.position(a[1].Line)
		p.lostLimitf(a[0], "%s is given twice, and that of line %d is ignored: %s", a[0].Value, first, remedy)
	}
}

// misplaced is the message about a key that a kind of mapping does not have. A file may have a million of them, so the
// text is made only if it is reported.
type misplaced struct {
	key  string
	in   *keySet
	verb string // "does not belong" or "is ignored"
}

// String returns where the key belongs, or which keys the mapping can have.
func (m misplaced) String() string {
	for _, b := range rightPlaces {
		if slices.Contains(b.in.keys, m.key) {
			return fmt.Sprintf("%q %s in %s: it goes %s", m.key, m.verb, m.in.name, b.where)
		}
	}
	return fmt.Sprintf("unknown key %s in %s: use one of %s", descriptors.Quote(m.key), m.in.name, strings.Join(m.in.keys, ", "))
}
