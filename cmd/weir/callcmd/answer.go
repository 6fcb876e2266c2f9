package callcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
)

func (c *client) printOnce(ctx context.Context, w io.Writer) error {
	a := c.callOnce(ctx)
	if a.err != nil {
		return c.describe(a.err)
	}
	if err := c.print(w, &a); err != nil {
		return err
	}
	switch {
	case a.unknownDomain():
		return c.unknownDomain()
	case a.over():
		return terminal.No
	}
	return nil
}

// print shows an answer as protobuf's JSON, or to people: a line for each descriptor, then all else that it carries.
func (c *client) print(w io.Writer, a *outcome) error {
	if c.JSON {
		text, err := protojson.Marshal(a.resp)
		if err != nil {
			return fmt.Errorf("writing the answer: %w", err)
		}
		return terminal.WriteJSON(w, json.RawMessage(text))
	}
	p, verdicts := terminal.PaintFor(w), c.verdicts(a)
	printVerdicts(w, p, verdicts)
	shadow := a.metadata("shadow_denied").GetStructValue().AsMap()
	if rule, limited := shadow["rule"].(string); limited {
		text := fmt.Sprintf("shadow mode: rule %s, %v, would have refused it", rule, shadow["limit"])
		if wait, known := shadow["retry_after"].(float64); known {
			text += ", again in " + terminal.Span(int64(wait))
		}
		fmt.Fprintf(w, "      %s\n", terminal.Printable(text))
	}
	label := "body"
	for text := range strings.Lines(string(a.resp.GetRawBody())) {
		fmt.Fprintf(w, "%4s  %s\n", label, terminal.Printable(strings.TrimRight(text, "\r\n")))
		label = ""
	}
	printHeaders(w, "header", a.resp.GetResponseHeadersToAdd())
	printHeaders(w, "upstream header", a.resp.GetRequestHeadersToAdd())
	fmt.Fprintf(w, "%s  overall, %s\n", code(p, a.resp.GetOverallCode()), p.Dim("answered in "+milliseconds(a.latency)))
	return nil
}

// printVerdicts prints a line for each descriptor, in columns.
func printVerdicts(w io.Writer, p terminal.Paint, verdicts []verdict) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := range verdicts {
		v := &verdicts[i]
		columns := append([]string{code(p, v.GetCode()), terminal.Printable(v.descriptor)}, v.parts()...)
		fmt.Fprintln(table, strings.Join(columns, "\t"))
	}
	_ = table.Flush() // as Fprintf's, its error is that of a closed pipe
}

func printHeaders(w io.Writer, what string, headers []*corev3.HeaderValue) {
	for _, h := range headers {
		value := cmp.Or(h.GetValue(), string(h.GetRawValue()))
		fmt.Fprintf(w, "      %s %s: %s\n", what, terminal.Printable(h.GetKey()), terminal.Printable(value))
	}
}

func (c *Command) unknownDomain() error {
	return fmt.Errorf("no file configures the domain %q, so that all its requests pass, uncounted: correct --domain, or "+
		"look at the domains that weir check DIR lists", c.Domain)
}

const over = rls.RateLimitResponse_OVER_LIMIT

// verdict is what an answer says of one descriptor.
type verdict struct {
	*rls.RateLimitResponse_DescriptorStatus
	descriptor string
	limit      string // that applies, or why none does
	hits       uint32 // asked for; 0 if they were no plain count
	degraded   string // which failure policy decided without the store, and why; "" if the store did
}

// verdicts returns those of an answer beside the descriptors of the request.
func (c *client) verdicts(o *outcome) []verdict {
	all := make([]verdict, len(o.resp.GetStatuses()))
	for i, from := range o.resp.GetStatuses() {
		s := &all[i]
		s.RateLimitResponse_DescriptorStatus = from
		if i < len(c.descriptors) {
			s.descriptor = c.descriptors[i].String()
		}
		if !c.Refund {
			s.hits = c.Hits
		}
		switch {
		case from.GetCurrentLimit() != nil:
			s.limit = describeLimit(from.GetCurrentLimit())
		case o.unknownDomain():
			s.limit = "the domain is unknown"
		case from.GetLimitRemaining() == math.MaxUint32:
			s.limit = "unlimited" // the rule's word
		default:
			s.limit = "no limit applies"
		}
	}
	for _, v := range o.metadata("degraded").GetListValue().GetValues() {
		f := v.GetStructValue().GetFields()
		if i := int(f["descriptor"].GetNumberValue()); i >= 0 && i < len(all) {
			all[i].degraded = terminal.Printable(f["reason"].GetStringValue() + "; policy " + f["policy"].GetStringValue())
		}
	}
	return all
}

func describeLimit(l *rls.RateLimitResponse_RateLimit) string {
	limit := descriptors.Limit{Requests: uint64(l.GetRequestsPerUnit()), Unit: descriptors.Unit(l.GetUnit()),
		Multiplier: max(1, l.GetUnitMultiplier().GetValue())}
	if l.GetName() != "" {
		return fmt.Sprintf("%s %q", limit, l.GetName())
	}
	return limit.String()
}

// parts returns the limit, what remains of it and until when, as far as something limits.
func (v *verdict) parts() []string {
	parts := []string{v.limit}
	if v.GetCurrentLimit() != nil {
		parts = append(parts, fmt.Sprintf("%d left", v.GetLimitRemaining()))
	}
	if when := v.when(); when != "" {
		parts = append(parts, when)
	}
	return parts
}

// when returns how long until there is room (over) or until the oldest hit expires (OK), and who decided if not the store.
func (v *verdict) when() (text string) {
	limit, span := v.GetCurrentLimit(), terminal.Span(int64(math.Ceil(v.GetDurationUntilReset().AsDuration().Seconds())))
	fits := max(1, v.hits) <= limit.GetRequestsPerUnit() // a look asks for one hit
	switch {
	case limit == nil && v.GetCode() != over:
	case v.GetCode() != over:
		text = "resets in " + span
	case fits || limit == nil:
		text = "again in " + span
	case limit.GetRequestsPerUnit() == 0:
		text = "never again: this limit lets nothing pass"
	default:
		text = fmt.Sprintf("never: %d hits at once are more than the whole limit", v.hits)
	}
	if v.degraded != "" {
		text += " (no answer from the store: " + v.degraded + ")"
	}
	return text
}

// phrase describes the first verdict that is over, else the first, and names its descriptor if there are several; or the
// error.
func (c *client) phrase(o *outcome) string {
	verdicts := c.verdicts(o)
	switch {
	case o.err != nil:
		return c.describe(o.err).Error()
	case len(verdicts) == 0:
		return "no limit applies"
	}
	v := verdicts[max(0, slices.IndexFunc(verdicts, func(v verdict) bool { return v.GetCode() == over }))]
	text := strings.Join(v.parts(), ", ")
	if len(verdicts) > 1 {
		text = terminal.Printable(v.descriptor) + ": " + text
	}
	return text
}

// code shows a verdict in four columns.
func code(p terminal.Paint, code rls.RateLimitResponse_Code) string {
	switch code {
	case rls.RateLimitResponse_OK:
		return p.Green("OK  ")
	case over:
		return p.Red("OVER")
	}
	return p.Yellow(code.String())
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.2f ms", 1000*d.Seconds()) }
