package checkcmd

import (
	"slices"
	"strings"

	"github.com/weirproxy/weir/descriptors"
)

// request describes what each descriptor does for a request that has them all, then what is charged, and the verdict.
func (x *checked) request(all []descriptors.Explanation) (lines []string) {
	var replaced, charged, deniers, quotas []string
	for i := range all {
		if r := all[i].Match.Rule; r != nil {
			replaced = append(replaced, r.Replaces...)
		}
	}
	for i := range all {
		r, name := all[i].Match.Rule, descriptors.Shown(all[i].Descriptor.String())
		lines = append(lines, name+": "+effect(r, replaced))
		switch {
		case r == nil || r.Unlimited || r.ReplacedBy(replaced):
			continue
		case r.Shadow:
		case r.Quota:
			quotas = append(quotas, name)
		default:
			deniers = append(deniers, name)
		}
		charged = append(charged, name)
	}
	if len(quotas) > 0 {
		deniers = append(deniers, "all of "+strings.Join(quotas, ", "))
	}
	verdict := "OK: nothing here denies"
	if len(deniers) > 0 {
		verdict = "denied if over: " + strings.Join(deniers, ", or ") + "; else OK. Envoy shows the limit with the least left"
	}
	charge := "nothing"
	if len(charged) > 0 {
		charge = strings.Join(charged, ", ") + ", each by itself, also where another denies or is unlimited"
		if x.config.RefundsOnDeny(all[0].Domain) {
			charge += "; refund_on_deny gives back what a denied request has charged elsewhere"
		}
	}
	return append(lines, "charged: "+charge, "verdict: "+verdict)
}

// effect describes what a rule, nil for none, does in a request that replaces the limits of some names.
func effect(r *descriptors.Rule, replaced []string) string {
	switch {
	case r == nil:
		return "passes, uncounted: no rule applies"
	case r.ReplacedBy(replaced):
		return "passes, uncounted: another descriptor replaces it"
	case r.Unlimited && len(r.Replaces) > 0:
		return "never denies: unlimited; limits named " + quotedList(r.Replaces) + " step aside for it"
	case r.Unlimited:
		return "never denies: unlimited; limits of others hold"
	}
	does := "denies when it is over: "
	switch {
	case r.Shadow:
		does = "never denies, in shadow mode: "
	case r.Quota:
		does = "denies when all quotas of the request are over: "
	}
	remaining := slices.DeleteFunc(slices.Clone(r.Limits), func(l descriptors.Limit) bool { return l.ReplacedBy(replaced) })
	return does + descriptors.DescribeLimits(remaining...)
}
