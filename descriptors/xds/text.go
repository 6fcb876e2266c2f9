package xds

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// maxKey is how long a key of YAML may be that stands before its colon without more ado, in bytes.
const maxKey = 1000

// text writes a resource as YAML. The same resource always gives the same text. Fields that are not set are left out,
// and so are those that mean something only beside a limit where there is none: servers set shadow_mode on each level.
func text(c *ratelimit.RateLimitConfig) []byte {
	var w writer
	w.put("{")
	w.named("domain", c.GetDomain())
	w.field("descriptors")
	list(&w, c.GetDescriptors(), w.descriptor)
	w.put("}\n")
	return w.text
}

// writer writes YAML in its flow style, which needs no indentation however deep it goes.
type writer struct{ text []byte }

func (w *writer) put(s string) { w.text = append(w.text, s...) }

// string writes a string in quotes. Go's escapes are YAML's too, in which only printable characters stand for themselves.
func (w *writer) string(s string) { w.text = strconv.AppendQuoteToASCII(w.text, s) }

// field begins a field of the mapping that was begun last. Only a brace that begins one can stand before its first.
func (w *writer) field(name string) {
	if w.text[len(w.text)-1] != '{' {
		w.put(", ")
	}
	w.put(name + ": ")
}

// named writes a string that is not empty, as a field.
func (w *writer) named(name, s string) {
	if s != "" {
		w.field(name)
		w.string(s)
	}
}

// flag writes a flag that is set, as a field.
func (w *writer) flag(name string, set bool) {
	if set {
		w.field(name)
		w.put("true")
	}
}

// list writes a list, each item on a line of its own.
func list[T any](w *writer, items []T, item func(T)) {
	w.put("[")
	for i, it := range items {
		if i > 0 {
			w.put(",")
		}
		w.put("\n")
		item(it)
	}
	w.put("]")
}

func (w *writer) descriptor(d *ratelimit.RateLimitDescriptor) {
	w.put("{")
	w.named("key", d.GetKey())
	w.named("value", d.GetValue())
	if p := d.GetRateLimit(); p != nil {
		w.field("rate_limit")
		w.policy(p)
		w.flag("shadow_mode", d.GetShadowMode())
		w.flag("quota_mode", d.GetQuotaMode())
		w.flag("detailed_metric", d.GetDetailedMetric())
		if m := d.GetMetadata(); m != nil {
			w.field("metadata")
			w.mapping(m)
		}
	}
	if below := d.GetDescriptors(); len(below) > 0 {
		w.field("descriptors")
		list(w, below, w.descriptor)
	}
	w.put("}")
}

// policy writes what is a rate_limit in a file. A unit that is not set is missing there too, which is an error.
func (w *writer) policy(p *ratelimit.RateLimitPolicy) {
	w.put("{")
	w.named("name", p.GetName())
	if u := p.GetUnit(); u != ratelimit.RateLimitUnit_UNKNOWN {
		w.named("unit", strings.ToLower(u.String()))
	}
	if n := p.GetRequestsPerUnit(); n > 0 || !p.GetUnlimited() {
		w.field("requests_per_unit")
		w.text = strconv.AppendUint(w.text, uint64(n), 10)
	}
	w.flag("unlimited", p.GetUnlimited())
	if all := p.GetReplaces(); len(all) > 0 {
		w.field("replaces")
		list(w, all, func(r *ratelimit.RateLimitReplace) {
			w.put("{")
			w.named("name", r.GetName())
			w.put("}")
		})
	}
	w.put("}")
}

func (w *writer) mapping(m *structpb.Struct) {
	w.put("{")
	for i, key := range slices.Sorted(maps.Keys(m.GetFields())) {
		if i > 0 {
			w.put(", ")
		}
		before := len(w.text)
		w.put("? ")
		w.string(key)
		if len(w.text)-before <= maxKey {
			w.text = append(w.text[:before], w.text[before+len("? "):]...)
		}
		w.put(" : ")
		w.value(m.GetFields()[key])
	}
	w.put("}")
}

func (w *writer) value(v *structpb.Value) {
	switch v := v.GetKind().(type) {
	case *structpb.Value_BoolValue:
		w.put(strconv.FormatBool(v.BoolValue))
	case *structpb.Value_NumberValue:
		w.number(v.NumberValue)
	case *structpb.Value_StringValue:
		w.string(v.StringValue)
	case *structpb.Value_ListValue:
		list(w, v.ListValue.GetValues(), w.value)
	case *structpb.Value_StructValue:
		w.mapping(v.StructValue)
	default:
		w.put("null")
	}
}

// number writes a number. Those that JSON lacks are errors wherever the text is read.
func (w *writer) number(v float64) {
	switch {
	case math.IsNaN(v):
		w.put(".nan")
	case math.IsInf(v, 0):
		w.put(".inf")
	default:
		w.text = strconv.AppendFloat(w.text, v, 'g', -1, 64)
	}
}
