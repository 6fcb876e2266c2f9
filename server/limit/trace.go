package limit

import (
	"slices"
	"strconv"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// What a trace shows at most, in bytes: of a descriptor or a key, and altogether.
const maxTracePart, maxTrace = 200, 4 << 10

// AppendTrace appends how the call came to its verdict, for a log: of each descriptor the rule that it found, or why
// it found none, the key under which it is counted, the verdict, and who decided it. It has the values of
// descriptors. Long texts are cut, and of many descriptors the first are shown. It comes after Decide and before
// Reset.
func (c *Call) AppendTrace(dst []byte) []byte {
	begin, check := len(dst), 0
	for i := range c.Descriptors {
		if len(dst)-begin > maxTrace {
			return append(strconv.AppendInt(append(dst, "; and "...), int64(len(c.Descriptors)-i), 10), " more"...)
		}
		if i > 0 {
			dst = append(dst, "; "...)
		}
		dst = c.Descriptors[i].Entries.AppendShort(dst, maxTracePart)
		dst = append(dst, " -> "...)
		dst = c.appendRule(dst, i)
		for ; check < len(c.pending) && c.pending[check].descriptor == i; check++ {
			dst = c.appendCheck(dst, check)
		}
	}
	return dst
}

// appendRule appends which rule descriptor i found.
func (c *Call) appendRule(dst []byte, i int) []byte {
	if c.rules == nil || i >= len(c.Statuses) {
		return append(dst, "not decided"...)
	}
	s, entries := &c.Statuses[i], c.Descriptors[i].Entries
	if s.Rule == nil {
		return c.appendMiss(dst, entries)
	}
	dst = append(append(dst, "rule "...), descriptors.ReadablePath(s.Rule.Path)...)
	dst = append(append(append(dst, " ("...), s.Rule.Where...), ')')
	if s.Unlimited {
		dst = append(dst, ", unlimited"...)
	}
	return dst
}

// appendMiss appends why a descriptor has no rule.
func (c *Call) appendMiss(dst []byte, entries descriptors.Descriptor) []byte {
	m := c.rules.find(c.Domain, entries)
	fitting := c.rules.config.Fitting(c.Domain, entries)
	switch {
	case m.Rule != nil:
		dst = append(append(dst, "no rule: "...), descriptors.ReadablePath(m.Rule.Path)...)
		return append(dst, " steps aside for a rule that replaces it"...)
	case len(entries) == 0:
		return append(dst, "no rule: it has no entries"...)
	case slices.ContainsFunc(entries, func(e descriptors.Entry) bool { return e.Key == "" }):
		return append(dst, "no rule: an entry has no key"...)
	case m.Found == descriptors.UnknownDomain:
		return append(dst, "no rule: no file configures the domain"...)
	case fitting < len(entries):
		return entries[fitting:fitting+1].AppendShort(append(dst, "no rule: nothing fits "...), maxTracePart)
	}
	return append(dst, "no rule: what it ends on has no limit"...)
}

// appendCheck appends what became of a check.
func (c *Call) appendCheck(dst []byte, check int) []byte {
	k, d, s := &c.checks[check], &c.decisions[check], &c.Statuses[c.pending[check].descriptor]
	key := k.Key
	if stem, plain := descriptors.PlainStem(key); plain {
		key = stem
	}
	if s.Override {
		dst = append(dst, ", the limit is the request's own"...)
	}
	dst = descriptors.AppendCut(append(dst, ", key "...), key, maxTracePart)
	dst = strconv.AppendUint(append(append(append(dst, ", "...), operations[k.Op]...), ' '), k.Hits, 10)
	if d.Err != nil {
		return append(append(dst, ": no decision: "...), d.Err.Error()...)
	}
	l := &k.Limits[d.Strictest]
	dst = append(dst, ": "...)
	switch {
	case d.Allowed:
		dst = append(dst, "OK "...)
	case s.Shadow || c.Shadowed:
		dst = append(dst, "OVER in shadow mode "...)
	case s.Quota && !c.Over:
		dst = append(dst, "OVER, not all quotas are, "...)
	default:
		dst = append(dst, "OVER "...)
	}
	dst = l.Append(dst)
	dst = strconv.AppendUint(append(dst, ", remaining "...), d.Remaining, 10)
	dst = appendWait(append(dst, ", resets in "...), d.ResetIn)
	if !d.Allowed {
		dst = appendWait(append(dst, ", again in "...), d.RetryIn)
	}
	dst = append(append(dst, ", decided by "...), d.Source.String()...)
	if d.Source.Degraded() {
		dst = append(append(append(append(dst, " ("...), d.Policy.String()...), ", as the store is "...), d.Reason.String()...)
		dst = append(dst, ')')
	}
	return dst
}

// operations are what a check does, for people.
var operations = [...]string{backend.Count: "hits", backend.Look: "looks for", backend.Refund: "gives back"}

func appendWait(dst []byte, wait time.Duration) []byte {
	if wait == backend.Never {
		return append(dst, "never"...)
	}
	return append(dst, wait.Round(time.Millisecond).String()...)
}
