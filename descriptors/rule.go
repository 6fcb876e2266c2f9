package descriptors

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// Rule is what a configuration says about the descriptors that match it. It is immutable and shared by all requests.
type Rule struct {
	Domain    string
	Path      string  // keys and configured values, percent-escaped: user/path=%2Fpay
	Where     string  // of its descriptor, for people: file:line, or the file alone
	Limits    []Limit // none if Unlimited
	Charge    Charge
	OnFailure Policy         // decides while no store does
	Unlimited bool           // matched, never limited
	Shadow    bool           // counted, never denied
	Quota     bool           // refuses a request only if all quotas of the request are over
	Lease     *bool          // whether processes lease hits of its keys; nil: as they do by default
	Message   string         // body of the 429; "" sends none
	Metadata  map[string]any // told to Envoy with each request that passes, as encoding/json reads values; nil for none
	Replaces  []string       // names of limits that are skipped if a request also matches this rule
	Number    int            // its index among the rules of its domain
	Name      string         // of an unlimited rule; limits have names of their own
	Values    []int          // ascending indexes of the entries whose values have their own history series
	Patterns  []string       // by entry: the pattern that counts for its values; "" where each value counts by itself
}

// countedValue returns what an entry of a descriptor counts as: its value, or the pattern that its values share.
func (r *Rule) countedValue(d Descriptor, entry int) string {
	return cmp.Or(r.SharedPattern(entry), d[entry].Value)
}

// SharedPattern returns the pattern whose values count as one in an entry of the rule's descriptors; "" if each value
// counts by itself, and for no rule (nil).
func (r *Rule) SharedPattern(entry int) string {
	if r != nil && entry < len(r.Patterns) {
		return r.Patterns[entry]
	}
	return ""
}

// Describe returns a rule's limits, and in brackets what else decides about its requests, for people.
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

// Leases reports whether a process leases hits of the rule's keys: as it does by default where the rule says nothing.
func (r *Rule) Leases(byDefault bool) bool {
	if r.Lease == nil {
		return byDefault
	}
	return *r.Lease
}

// ReplacedBy reports whether the whole rule, with all of its limits, is skipped for rules that replace these names.
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
	// Run calls apply with each new configuration until ctx ends. An error of apply means that the configuration was
	// rejected; the last good one stays in force, and Run goes on. Run returns ctx's error, or why it cannot go on.
	Run(ctx context.Context, apply func(*Config) error) error
}

// PathSegment escapes one level of a rule's path. The value is left out when the rule has none.
func PathSegment(key, value string) string {
	segment := pathEscaper.Replace(key)
	if value != "" {
		segment += "=" + pathEscaper.Replace(value)
	}
	return segment
}

// MaxValue is how long a value may be, in bytes, to be counted by itself: it becomes part of the name of a series of the
// history.
const MaxValue = 256

// AppendValue appends the value of a descriptor's hits in the history: the entries that the rule keeps apart, as
// user=ann,path=%2Fpay, escaped as a path is, commas too. Different values never give the same text, and none is empty;
// one longer than MaxValue gives none. It allocates only to grow dst.
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

// appendPercentEscaped appends a text with what separates, and what would break a line, percent-escaped.
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

// SamePath reports whether asked is a rule's path, as it is stored or as it is shown.
func SamePath(path, asked string) bool { return path == asked || ReadablePath(path) == asked }

// ReadablePath unescapes a rule's path or a value of its history, for people. It allocates only if that changes it.
func ReadablePath(path string) string { return pathUnescaper.Replace(path) }

var (
	pathEscaper   = strings.NewReplacer("%", "%25", "/", "%2F", "=", "%3D")
	pathUnescaper = strings.NewReplacer("%25", "%", "%2F", "/", "%3D", "=", "%2C", ",")
)

// Bound returns how many hits a limit of the rule admits at most in any window, nil if nothing bounds them, and why, as
// [Limit.Bound] does.
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
