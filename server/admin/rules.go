package admin

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"github.com/weirproxy/weir/descriptors"
)

// showRules serves the limits in force in the lines of envoyproxy/ratelimit, which tools print, sorted. Without a
// configuration there are none.
func showRules(r Rules) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var b strings.Builder
		for _, rule := range sortedRules(r.Config()) {
			writeRule(&b, rule)
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, b.String()) // the client is gone if this fails
	}
}

// writeRule writes a line for each of the rule's limits. Only what envoyproxy/ratelimit does not know comes behind its
// line.
func writeRule(b *strings.Builder, r *descriptors.Rule) {
	line := func(unit string, requests uint64, multiplier uint32) {
		fmt.Fprintf(b, "%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t", dotted(r), unit, requests, r.Shadow, r.Quota)
		if multiplier > 1 {
			fmt.Fprintf(b, ", unit_multiplier: %d", multiplier)
		}
		b.WriteByte('\n')
	}
	if r.Unlimited {
		line("UNKNOWN", 0, 1)
	}
	for _, l := range r.Limits {
		line(strings.ToUpper(l.Unit.String()), min(l.Requests, math.MaxUint32), l.Multiplier)
	}
}

// dotted returns a rule's path as envoyproxy/ratelimit writes it: shop.user.path_/pay.
func dotted(r *descriptors.Rule) string {
	name := r.Domain
	for segment := range strings.SplitSeq(r.Path, "/") {
		key, value, hasValue := strings.Cut(segment, "=")
		name += "." + descriptors.ReadablePath(key)
		if hasValue {
			name += "_" + descriptors.ReadablePath(value)
		}
	}
	return descriptors.Printable(name)
}
