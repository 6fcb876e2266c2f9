package limit

import (
	"fmt"
	"strings"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// Bounds of a trace: descriptors, and bytes of a descriptor or a key.
const maxTraced, maxTracePart = 10, 200

// Trace describes the verdict for a log: the rule, verdict, key and decider of the first ten descriptors. It contains
// values of descriptors. Call it after Decide and before Reset.
func (c *Call) Trace() string {
	var b strings.Builder
	check := 0
	for i := range c.Statuses[:min(maxTraced, len(c.Statuses))] {
		if i > 0 {
			b.WriteString("; ")
		}
		s := &c.Statuses[i]
		fmt.Fprintf(&b, "%s -> %s: ", c.Descriptors[i].Entries.AppendShort(nil, maxTracePart), descriptors.ReadablePath(s.Path()))
		switch {
		case check < len(c.pending) && c.pending[check].descriptor == i:
			traceCheck(&b, &c.checks[check], &c.decisions[check])
			check++
		case s.Outcome == Unlimited:
			b.WriteString("unlimited")
		default:
			b.WriteString("no rule")
		}
	}
	if more := len(c.Statuses) - maxTraced; more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return b.String()
}

func traceCheck(b *strings.Builder, check *backend.Check, d *backend.Decision) {
	key := check.Key
	if stem, plain := descriptors.RatelimitKey(key); plain {
		key = stem
	}
	if d.Err != nil {
		fmt.Fprintf(b, "%v, key %s", d.Err, descriptors.AppendCut(nil, key, maxTracePart))
		return
	}
	verdict := "OVER"
	if d.Allowed {
		verdict = "OK"
	}
	fmt.Fprintf(b, "%s, key %s, decided by %s", verdict, descriptors.AppendCut(nil, key, maxTracePart), d.Source)
	if d.Source.Degraded() {
		fmt.Fprintf(b, " (%s)", d.Policy)
	}
}
