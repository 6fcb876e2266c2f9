package callcmd

import (
	"fmt"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// said returns what an answer's dynamic metadata have under a name, nil for nothing.
func (o *outcome) said(name string) *structpb.Value {
	return o.resp.GetDynamicMetadata().GetFields()[name]
}

// unknownDomain is the error of a call about a domain that nothing configures.
func unknownDomain(name string) error {
	return fmt.Errorf("no file configures the domain %q, so that all its requests pass, uncounted: correct --domain, or "+
		"look at the domains that weir check DIR lists", name)
}

// degradation tells who decided about a descriptor while the store was away, and why. It is part of the answer's dynamic
// metadata.
type degradation struct {
	Policy string `json:"policy"`
	Reason string `json:"reason"`
}

// degradations returns those of an answer, by the index of the descriptor.
func degradations(o *outcome) map[int]*degradation {
	all := make(map[int]*degradation)
	for _, v := range o.said("degraded").GetListValue().GetValues() {
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
