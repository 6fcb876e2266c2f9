package limit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// What a trace shows at most, in bytes: of a descriptor or a key, and altogether.
const maxTracePart, maxTrace = 200, 4 << 10

// Trace tells how the call came to its verdict, for a log: of each descriptor the rule that it found, or why it found
// none, the key under which it is counted, the verdict, and who decided it. It has the values of descriptors. Long texts
// are cut, and of many descriptors the first are shown. It comes after Decide and before Reset.
func (c *Call) Trace() string {
	var b strings.Builder
	check := 0
	for i := range c.Descriptors {
		if b.Len() > maxTrace {
			fmt.Fprintf(&b, "; and %d more", len(c.Descriptors)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s -> %s", c.Descriptors[i].Entries.AppendShort(nil, maxTracePart), c.traceRule(i))
		for ; check < len(c.pending) && c.pending[check].descriptor == i; check++ {
			b.WriteString(c.traceCheck(check))
		}
	}
	return b.String()
}

// traceRule tells which rule descriptor i found, or why it found none.
func (c *Call) traceRule(i int) string {
	if c.rules == nil || i >= len(c.Statuses) {
		return "not decided"
	}
	s := &c.Statuses[i]
	switch {
	case s.Rule == nil:
		return "no rule: " + c.traceMiss(c.Descriptors[i].Entries)
	case s.Unlimited:
		return fmt.Sprintf("rule %s (%s), unlimited", descriptors.ReadablePath(s.Rule.Path), s.Rule.Where)
	}
	return fmt.Sprintf("rule %s (%s)", descriptors.ReadablePath(s.Rule.Path), s.Rule.Where)
}

func (c *Call) traceMiss(entries descriptors.Descriptor) string {
	m := c.rules.find(c.Domain, entries)
	steps := c.rules.config.Explain(c.Domain, entries).Steps
	switch {
	case m.Rule != nil:
		return descriptors.ReadablePath(m.Rule.Path) + " steps aside for a rule that replaces it"
	case len(entries) == 0:
		return "it has no entries"
	case slices.ContainsFunc(entries, func(e descriptors.Entry) bool { return e.Key == "" }):
		return "an entry has no key"
	case m.Found == descriptors.UnknownDomain:
		return "no file configures the domain"
	case len(steps) > 0 && steps[len(steps)-1].Chosen == nil:
		return "nothing fits " + string(entries[len(steps)-1:len(steps)].AppendShort(nil, maxTracePart))
	}
	return "what it ends on has no limit"
}

// traceCheck tells what became of a check.
func (c *Call) traceCheck(check int) string {
	k, d, s := &c.checks[check], &c.decisions[check], &c.Statuses[c.pending[check].descriptor]
	key := k.Key
	if stem, plain := descriptors.PlainStem(key); plain {
		key = stem
	}
	text := fmt.Sprintf(", key %s, %s %d: ", descriptors.AppendCut(nil, key, maxTracePart), operations[k.Op], k.Hits)
	if s.Override {
		text = ", the limit is the request's own" + text
	}
	if d.Err != nil {
		return text + "no decision: " + d.Err.Error()
	}
	verdict := "OVER"
	switch {
	case d.Allowed:
		verdict = "OK"
	case s.Shadow || c.Shadowed:
		verdict = "OVER in shadow mode"
	case s.Quota && !c.Over:
		verdict = "OVER, not all quotas are,"
	}
	text += fmt.Sprintf("%s %s, remaining %d, resets in %s", verdict, k.Limits[d.Strictest].String(), d.Remaining,
		wait(d.ResetIn))
	if !d.Allowed {
		text += ", again in " + wait(d.RetryIn)
	}
	text += ", decided by " + d.Source.String()
	if d.Source.Degraded() {
		text += fmt.Sprintf(" (%s, as the store is %s)", d.Policy, d.Reason)
	}
	return text
}

// operations are what a check does, for people.
var operations = [...]string{backend.Count: "hits", backend.Look: "looks for", backend.Refund: "gives back"}

func wait(d time.Duration) string {
	if d == backend.Never {
		return "never"
	}
	return d.Round(time.Millisecond).String()
}
