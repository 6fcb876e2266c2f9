package descriptors

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// Rule is the rule for the descriptors that match it. It is immutable and shared by all requests.
type Rule struct {
	Domain    string
	Path      string  // keys and configured values, percent-escaped: user/path=%2Fpay
	Where     string  // position of its descriptor, for people: file:line, or the file alone
	Limits    []Limit // none if Unlimited
	Charge    Charge
	OnFailure Policy         // decides while the store is away
	Unlimited bool           // the rule has no limit
	Shadow    bool           // hits are counted, but never denied
	Quota     bool           // denies a request only if all quotas of the request are exceeded
	Lease     *bool          // whether processes lease hits of its keys; nil: the default of the process
	Message   string         // body of the 429; "" sends none
	Metadata  map[string]any // sent to Envoy with each request that passes, with values as of encoding/json; nil for none
	Replaces  []string       // names of limits that are skipped if a request also matches this rule
	Number    int            // index among the rules of the domain
	Name      string         // name of an unlimited rule; other rules have names in their limits
	Values    []int          // ascending indexes of the entries whose values have separate series in the history
	Patterns  []string       // by entry, the pattern whose values share a count; "" if each value has its own
}

// countedValue returns the value of an entry of a descriptor for counting: the value itself, or the pattern whose
// values share a count.
func (r *Rule) countedValue(d Descriptor, entry int) string {
	return cmp.Or(r.SharedPattern(entry), d[entry].Value)
}

// SharedPattern returns the pattern whose values share a count in an entry of the rule's descriptors; "" if each value
// has its own count. The rule may be nil.
func (r *Rule) SharedPattern(entry int) string {
	if r != nil && entry < len(r.Patterns) {
		return r.Patterns[entry]
	}
	return ""
}

// Describe describes a rule for people: its limits, and in parentheses the other settings that affect decisions.
func (r *Rule) Describe() string {
	out := DescribeLimits(r.Limits...)
	if r.Unlimited {
		out = strings.TrimSpace("unlimited " + Printable(r.Name))
	}
	if r.OnFailure != PolicyDefault {
		out += " (on_backend_failure: " + r.OnFailure.String() + ")"
	}
	if r.Shadow {
		out += " (shadow: never denies)"
	}
	if r.Quota {
		out += " (quota: denies when all quotas of a request are over)"
	}
	return out
}

// DescribeLimits returns limits as N/UNIT, each with its name.
func DescribeLimits(limits ...Limit) string {
	texts := make([]string, len(limits))
	for i := range limits {
		texts[i] = strings.TrimSpace(limits[i].String() + " " + Printable(limits[i].Name))
	}
	return strings.Join(texts, ", ")
}

// Leases reports whether a process leases hits of the rule's keys, given its default.
func (r *Rule) Leases(byDefault bool) bool {
	if r.Lease == nil {
		return byDefault
	}
	return *r.Lease
}

// ReplacedBy reports whether the whole rule, with all of its limits, is replaced by limits that replace these names.
func (r *Rule) ReplacedBy(names []string) bool {
	if len(names) == 0 {
		return false
	}
	for i := range r.Limits {
		if !r.Limits[i].ReplacedBy(names) {
			return false
		}
	}
	return !r.Unlimited || (r.Name != "" && slices.Contains(names, r.Name))
}

// ReplacedBy reports whether the limit has one of these names.
func (l *Limit) ReplacedBy(names []string) bool {
	return l.Name != "" && slices.Contains(names, l.Name)
}

// Source delivers configurations.
type Source interface {
	// Run calls apply with each new configuration until ctx ends. If apply returns an error, the configuration was
	// rejected and the last good one stays in force; Run continues. Run returns ctx's error, or the reason why it cannot
	// continue.
	Run(ctx context.Context, apply func(*Config) error) error
}

// PathSegment returns one level of a rule's path, escaped: key=value, or the key alone if the value is "".
func PathSegment(key, value string) string {
	segment := pathEscaper.Replace(key)
	if value != "" {
		segment += "=" + pathEscaper.Replace(value)
	}
	return segment
}

// MaxValue is the longest value, in bytes, that can have a separate series in the history, whose name it becomes a part
// of.
const MaxValue = 256

// AppendValue appends the value of a descriptor's series in the history: the entries of Values, as in
// user=ann,path=%2Fpay, escaped like a path, with commas too. Different entries make different values, and none is
// empty. It appends nothing if the value would be longer than MaxValue. It allocates only to grow dst.
func (r *Rule) AppendValue(dst []byte, d Descriptor) []byte {
	begin := len(dst)
	for i, entry := range r.Values {
		if len(dst)-begin+len(d[entry].Key)+len(d[entry].Value) > MaxValue {
			return dst[:begin]
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendPercentEscaped(dst, d[entry].Key)
		dst = append(dst, '=')
		dst = appendPercentEscaped(dst, r.countedValue(d, entry))
	}
	if len(dst)-begin > MaxValue {
		return dst[:begin]
	}
	return dst
}

// appendPercentEscaped appends a text with separators and control characters percent-escaped.
func appendPercentEscaped(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		switch c := s[i]; {
		case c == '%', c == '/', c == '=', c == ',', c < ' ', c == 0x7f:
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// SamePath reports whether text is a rule's path, escaped or readable.
func SamePath(path, text string) bool { return path == text || ReadablePath(path) == text }

// ReadablePath unescapes a rule's path or a value of its history, for people. It allocates only if there is something
// to unescape.
func ReadablePath(path string) string { return pathUnescaper.Replace(path) }

var (
	pathEscaper   = strings.NewReplacer("%", "%25", "/", "%2F", "=", "%3D")
	pathUnescaper = strings.NewReplacer("%25", "%", "%2F", "/", "%3D", "=", "%2C", ",")
)

// Bound returns the most hits that a limit of the rule admits in any window, nil if they are unbounded, and why, like
// [Limit.Bound].
func (r *Rule) Bound(l *Limit) (most *uint64, why string) {
	n, why := l.Bound(r.Charge)
	switch {
	case r.Shadow:
		return nil, "none: in shadow mode nothing is denied; without it " + why
	case r.Quota:
		return nil, "none while another quota of the request has room; else " + why
	}
	return &n, why
}
