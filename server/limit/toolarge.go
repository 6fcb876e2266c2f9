package limit

import (
	"fmt"
	"slices"

	"github.com/weirproxy/weir/descriptors"
)

// tooLargeMessage is the body of the answer to a request that is too large.
const tooLargeMessage = "The request is too large to be rate limited.\n"

// tooLarge returns which bound the request exceeds, "" for none.
func (c *Call) tooLarge() string {
	switch {
	case c.Cut:
		return "message"
	case len(c.Descriptors) > MaxDescriptors:
		return fmt.Sprintf("more than %d descriptors", MaxDescriptors)
	}
	for i := range c.Descriptors {
		if len(c.Descriptors[i].Entries) > MaxEntries {
			return fmt.Sprintf("more than %d entries of a descriptor", MaxEntries)
		}
	}
	return ""
}

// refuseTooLarge sets the verdict on a request that is too large.
func (l *Limiter) refuseTooLarge(r *rules, c *Call, what string) {
	c.TooLarge = true
	brings := func(d Descriptor) bool { return d.HasOverride }
	if r.config.Enforces(c.Domain) || !c.UnknownDomain && slices.ContainsFunc(c.Descriptors, brings) {
		c.Result, c.Message = l.refusal(), tooLargeMessage
	}
	l.logLines.Warn(l.options.Log, "request too large", "domain", descriptors.Abbreviate(c.Domain), "has", what, "refused", c.Result == OverLimit,
		"remedy", "bound the headers that descriptors are made of, or make fewer descriptors", "counted_in", `weir_requests_total{outcome="too_large"}`)
}

// logInvalid logs an invalid request: it passes wherever Envoy's failure_mode_deny is off.
func (l *Limiter) logInvalid(c *Call, err error) {
	l.logLines.Warn(l.options.Log, "request invalid", "domain", descriptors.Abbreviate(c.Domain), "reason", err,
		"remedy", "have the caller name a domain and a descriptor", "counted_in", `weir_requests_total{outcome="invalid"}`)
}
