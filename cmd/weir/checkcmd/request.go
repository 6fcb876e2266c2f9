package checkcmd

import (
	"slices"
	"strings"

	"github.com/weirproxy/weir/descriptors"
)

// request tells what each of these descriptors does for a request that has them all, then what is charged, and the
// verdict.
func (c *checked) request(all []descriptors.Explanation) (lines []string) {
	var replaced, charged []string
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
			does = "never denies, and lifts no limit of another: unlimited"
		default:
			held := slices.DeleteFunc(slices.Clone(r.Limits), func(l descriptors.Limit) bool { return l.ReplacedBy(replaced) })
			does, charged = "denies when it is over: ", append(charged, name)
			if r.Shadow {
				does = "never denies, in shadow mode: "
			} else if r.Quota {
				does = "denies when all quotas of the request are over: "
			}
			does += limitTexts(held...)
		}
		lines = append(lines, name+": "+does)
	}
	charge := strings.Join(charged, ", ") + ", each by itself, also where another denies or is unlimited"
	if len(charged) == 0 {
		charge = "nothing"
	} else if c.config.RefundsOnDeny(all[0].Domain) {
		charge += "; refund_on_deny gives back what a denied request has charged elsewhere"
	}
	return append(lines, "charged: "+charge, "verdict: denied if one of them denies, else OK; Envoy shows the limit with the least left")
}
