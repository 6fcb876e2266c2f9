package callcmd

import (
	"fmt"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// degradation tells who decided about a descriptor while the store was away, and why. It is part of the answer's dynamic
// metadata.
type degradation struct {
	Policy string `json:"policy"`
	Reason string `json:"reason"`
}

// degradations returns those of an answer, by the index of the descriptor.
func degradations(answer *rls.RateLimitResponse) map[int]*degradation {
	all := make(map[int]*degradation)
	for _, v := range answer.GetDynamicMetadata().GetFields()["degraded"].GetListValue().GetValues() {
		f := v.GetStructValue().GetFields()
		all[int(f["descriptor"].GetNumberValue())] = &degradation{f["policy"].GetStringValue(), f["reason"].GetStringValue()}
	}
	return all
}

// String says it in brackets; "" for nil, where the store decided.
func (d *degradation) String() string {
	if d == nil {
		return ""
	}
	return fmt.Sprintf(" (no answer from Redis: %s; policy %s)", terminal.Printable(d.Reason), terminal.Printable(d.Policy))
}
