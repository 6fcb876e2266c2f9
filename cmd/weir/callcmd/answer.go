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

// printOnce calls once and prints the answer. Run reports its error, unless that is a terminal.Exit.
func (c *client) printOnce(ctx context.Context, w io.Writer) error {
	a := c.callOnce(ctx)
	if a.err != nil {
		return c.describeError(a.err)
	}
	if err := c.print(w, &a); err != nil {
		return err
	}
	switch {
	case a.unknownDomain():
		return c.unknownDomainError()
	case a.denied():
		return terminal.ExitNo
	}
	return nil
}

// print prints an answer as protobuf's JSON, or as text: a line for each descriptor, then the rest of the answer.
func (c *client) print(w io.Writer, a *callResult) error {
	if c.JSON {
		text, err := protojson.Marshal(a.resp)
		if err != nil {
			return fmt.Errorf("writing the answer: %w", err)
		}
		return terminal.WriteJSON(w, json.RawMessage(text))
	}
	p, table := terminal.PaintFor(w), tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, s := range a.resp.GetStatuses() {
		columns := append([]string{paintCode(p, s.GetCode()), c.printableDescriptor(i)}, c.limitColumns(a, i)...)
		fmt.Fprintln(table, strings.Join(columns, "\t"))
	}
	_ = table.Flush() // it fails only if the pipe is closed, like Fprintf
	shadow := a.metadata("shadow_denied").GetStructValue().AsMap()
	if rule, limited := shadow["rule"].(string); limited {
		text := fmt.Sprintf("shadow mode: rule %s, %v, would have denied it", rule, shadow["limit"])
		if wait, known := shadow["retry_after"].(float64); known {
			text += ", again in " + terminal.FormatSeconds(int64(wait))
		}
		fmt.Fprintf(w, "      %s\n", descriptors.Printable(text))
	}
	label := "body"
	for text := range strings.Lines(string(a.resp.GetRawBody())) {
		fmt.Fprintf(w, "%4s  %s\n", label, descriptors.Printable(strings.TrimRight(text, "\r\n")))
		label = ""
	}
	printHeaders(w, "header", a.resp.GetResponseHeadersToAdd())
	printHeaders(w, "upstream header", a.resp.GetRequestHeadersToAdd())
	fmt.Fprintf(w, "%s  overall, %s\n", paintCode(p, a.resp.GetOverallCode()), p.Dim("answered in "+milliseconds(a.latency)))
	return nil
}

func printHeaders(w io.Writer, label string, headers []*corev3.HeaderValue) {
	for _, h := range headers {
		value := cmp.Or(h.GetValue(), string(h.GetRawValue()))
		fmt.Fprintf(w, "      %s %s: %s\n", label, descriptors.Printable(h.GetKey()), descriptors.Printable(value))
	}
}

func (c *Command) unknownDomainError() error {
	return fmt.Errorf("no file configures the domain %q, so that all its requests pass, uncounted: correct --domain, or "+
		"look at the domains that weir check DIR lists", c.Domain)
}

const overLimit = rls.RateLimitResponse_OVER_LIMIT

// printableDescriptor returns descriptor i of the request, escaped for a terminal, or "" if the request has none.
func (c *client) printableDescriptor(i int) string {
	if i >= len(c.descriptors) {
		return ""
	}
	return descriptors.Printable(c.descriptors[i].String())
}

// limitColumns returns the columns of a descriptor: its limit, the remaining hits and when they change; or why no limit
// applies.
func (c *client) limitColumns(result *callResult, i int) []string {
	s := result.resp.GetStatuses()[i]
	reset := c.resetText(s)
	for _, v := range result.metadata("degraded").GetListValue().GetValues() {
		if f := v.GetStructValue().GetFields(); int(f["descriptor"].GetNumberValue()) == i {
			reset += descriptors.Printable(fmt.Sprintf(" (no answer from the store: %s; policy %s)", f["reason"].GetStringValue(),
				f["policy"].GetStringValue()))
		}
	}
	if s.GetCode() == overLimit && !result.denied() && result.metadata("shadow_denied") == nil {
		reset += "; let pass: a quota while another has room, or shadow mode" // without DENIAL_METADATA an answer does not mention shadow mode
	}
	switch {
	case s.GetCurrentLimit() != nil:
		return []string{describeLimit(s.GetCurrentLimit()), fmt.Sprintf("%d left", s.GetLimitRemaining()), reset}
	case result.unknownDomain():
		return []string{"the domain is unknown"}
	case s.GetLimitRemaining() == math.MaxUint32:
		return []string{"unlimited"} // as in the rule
	}
	return []string{"no limit applies" + reset}
}

func describeLimit(l *rls.RateLimitResponse_RateLimit) string {
	limit := descriptors.Limit{Requests: uint64(l.GetRequestsPerUnit()), Unit: descriptors.Unit(l.GetUnit()),
		Multiplier: max(1, l.GetUnitMultiplier().GetValue())}
	if l.GetName() != "" {
		return fmt.Sprintf("%s %q", limit, l.GetName())
	}
	return limit.String()
}

// resetText returns how long until there is room (OVER) or until the oldest hit expires (OK); "" without a limit.
func (c *client) resetText(s *rls.RateLimitResponse_DescriptorStatus) string {
	limit, span := s.GetCurrentLimit(), terminal.FormatSeconds(int64(math.Ceil(s.GetDurationUntilReset().AsDuration().Seconds())))
	switch {
	case limit == nil:
		return ""
	case s.GetCode() != overLimit:
		return "resets in " + span
	case max(1, c.Hits) <= limit.GetRequestsPerUnit(): // a look asks for one hit
		return "again in " + span
	case limit.GetRequestsPerUnit() == 0:
		return "never again: this limit lets nothing pass"
	}
	return fmt.Sprintf("never: %d hits at once are more than the whole limit", c.Hits)
}

// summary describes the error or, of the descriptors, the first that is over, else the first. It names the descriptor if
// there are several.
func (c *client) summary(result *callResult) string {
	statuses := result.resp.GetStatuses()
	switch {
	case result.err != nil:
		return c.describeError(result.err).Error()
	case len(statuses) == 0:
		return "no limit applies"
	}
	first := max(0, slices.IndexFunc(statuses, func(s *rls.RateLimitResponse_DescriptorStatus) bool { return s.GetCode() == overLimit }))
	text := strings.Join(c.limitColumns(result, first), ", ")
	if len(statuses) > 1 {
		text = c.printableDescriptor(first) + ": " + text
	}
	return text
}

// paintCode returns a verdict in colour, OK and OVER four characters wide.
func paintCode(p terminal.Paint, code rls.RateLimitResponse_Code) string {
	switch code {
	case rls.RateLimitResponse_OK:
		return p.Green("OK  ")
	case overLimit:
		return p.Red("OVER")
	}
	return p.Yellow(code.String())
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.2f ms", 1000*d.Seconds()) }
