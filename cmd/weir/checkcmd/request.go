package checkcmd

import (
	"slices"
	"strings"

	"github.com/weirproxy/weir/descriptors"
)

// request describes what each descriptor does for a request that has them all, then what is charged, and the verdict.
func (c *checked) request(all []descriptors.Explanation) (lines []string) {
	var replaced, charged, deniers, quotas []string
	for i := range all {
		if r := all[i].Match.Rule; r != nil {
			replaced = append(replaced, r.Replaces...)
		}
	}
	for i := range all {
		r, name, does := all[i].Match.Rule, descriptors.Shown(all[i].Descriptor.String()), "passes, uncounted: no rule applies"
		switch {
		case r == nil:
		case r.ReplacedBy(replaced):
			does = "passes, uncounted: another descriptor replaces it"
		case r.Unlimited:
			does = "never denies: unlimited; limits of others hold"
			if len(r.Replaces) > 0 {
				does = "never denies: unlimited; limits named " + quotedList(r.Replaces) + " step aside for it"
			}
		default:
			held := slices.DeleteFunc(slices.Clone(r.Limits), func(l descriptors.Limit) bool { return l.ReplacedBy(replaced) })
			does, charged = "denies when it is over: ", append(charged, name)
			switch {
			case r.Shadow:
				does = "never denies, in shadow mode: "
			case r.Quota:
				does, quotas = "denies when all quotas of the request are over: ", append(quotas, name)
			default:
				deniers = append(deniers, name)
			}
			does += descriptors.DescribeLimits(held...)
		}
		lines = append(lines, name+": "+does)
	}
	if len(quotas) > 0 {
		deniers = append(deniers, "all of "+strings.Join(quotas, ", "))
	}
	verdict := "OK: nothing here denies"
	if len(deniers) > 0 {
		verdict = "denied if over: " + strings.Join(deniers, ", or ") + "; else OK. Envoy shows the limit with the least left"
	}
	charge := strings.Join(charged, ", ")
	if len(all) > 1 {
		charge += ", each by itself, also where another denies or is unlimited"
	}
	if len(charged) == 0 {
		charge = "nothing"
	} else if c.config.RefundsOnDeny(all[0].Domain) {
		charge += "; refund_on_deny gives back what a denied request has charged elsewhere"
	}
	return append(lines, "charged: "+charge, "verdict: "+verdict)
}
