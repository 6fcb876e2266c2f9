package callcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
)

// printOnce calls once and prints the answer.
func (c *client) printOnce(ctx context.Context, w io.Writer) error {
	called := c.callOnce(ctx)
	if called.err != nil {
		return c.describe(called.err)
	}
	a := c.answer(&called)
	if c.JSON {
		if err := terminal.WriteJSON(w, a); err != nil {
			return err
		}
	} else {
		a.print(w, terminal.PaintFor(w))
	}
	switch {
	case a.UnknownDomain:
		return c.unknownDomain()
	case called.over():
		return terminal.No
	}
	return nil
}

// unknownDomain is true in the dynamic metadata of an answer if nothing configures the domain.
const unknownDomain = "unknown_domain"

func (c *Command) unknownDomain() error {
	return fmt.Errorf("no file configures the domain %q, so that all its requests pass, uncounted: correct --domain, or "+
		"look at the domains that weir check DIR lists", c.Domain)
}

// answer is what the service answered, as --json prints it.
type answer struct {
	Overall         string              `json:"overall"`
	LatencyUS       int64               `json:"latency_us"`
	Statuses        []*descriptorStatus `json:"statuses"`
	Message         string              `json:"message,omitempty"`
	ResponseHeaders []header            `json:"response_headers,omitempty"`
	RequestHeaders  []header            `json:"request_headers,omitempty"`

	Shadow        map[string]any `json:"shadow_denied,omitempty"` // rule, limit, retry_after and others
	UnknownDomain bool           `json:"unknown_domain,omitempty"`
}

// descriptorStatus is the verdict about one descriptor.
type descriptorStatus struct {
	Descriptor      string `json:"descriptor"`
	Code            string `json:"code"`
	Limit           string `json:"limit"` // unlimited, or "" if none applies, and then the next four are zero
	RequestsPerUnit uint32 `json:"requests_per_unit"`
	Unit            string `json:"unit"`
	UnitMultiplier  uint32 `json:"unit_multiplier"`
	Name            string `json:"name"`
	Remaining       uint32 `json:"remaining"`
	ResetSeconds    int64  `json:"reset_seconds"`

	Degraded *degraded `json:"degraded,omitempty"` // nil if the store decided

	hits    uint32 // asked for; 0 if they were no plain count
	unknown bool   // nothing configures the domain
}

// degraded is which failure policy decided without the store, and why.
type degraded struct {
	Policy string `json:"policy"`
	Reason string `json:"reason"`
}

type header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// answer returns the service's answer beside the descriptors of the request.
func (c *client) answer(o *outcome) *answer {
	a := &answer{
		Overall:         o.resp.GetOverallCode().String(),
		LatencyUS:       o.latency.Microseconds(),
		Statuses:        []*descriptorStatus{},
		Message:         string(o.resp.GetRawBody()),
		ResponseHeaders: headers(o.resp.GetResponseHeadersToAdd()),
		RequestHeaders:  headers(o.resp.GetRequestHeadersToAdd()),
		Shadow:          o.metadata("shadow_denied").GetStructValue().AsMap(),
		UnknownDomain:   o.metadata(unknownDomain).GetBoolValue(),
	}
	for i, from := range o.resp.GetStatuses() {
		s := c.status(from)
		s.unknown = a.UnknownDomain
		if i < len(c.descriptors) {
			s.Descriptor = c.descriptors[i].String()
		}
		a.Statuses = append(a.Statuses, s)
	}
	for _, v := range o.metadata("degraded").GetListValue().GetValues() {
		f := v.GetStructValue().GetFields()
		if i := int(f["descriptor"].GetNumberValue()); i >= 0 && i < len(a.Statuses) {
			a.Statuses[i].Degraded = &degraded{f["policy"].GetStringValue(), f["reason"].GetStringValue()}
		}
	}
	return a
}

func (c *client) status(from *rls.RateLimitResponse_DescriptorStatus) *descriptorStatus {
	reset := from.GetDurationUntilReset().AsDuration()
	s := &descriptorStatus{
		Code: from.GetCode().String(), Remaining: from.GetLimitRemaining(), ResetSeconds: int64(math.Ceil(reset.Seconds())),
	}
	if !c.Refund {
		s.hits = c.Hits
	}
	if l := from.GetCurrentLimit(); l != nil {
		shown := descriptors.Limit{Requests: uint64(l.GetRequestsPerUnit()), Unit: descriptors.Unit(l.GetUnit()),
			Multiplier: max(1, l.GetUnitMultiplier().GetValue())}
		s.Limit, s.Unit, s.UnitMultiplier = shown.String(), shown.Unit.String(), shown.Multiplier
		s.RequestsPerUnit, s.Name = l.GetRequestsPerUnit(), l.GetName()
	} else if s.Remaining == math.MaxUint32 {
		s.Limit = unlimited
	}
	return s
}

func headers(wire []*corev3.HeaderValue) []header {
	var list []header
	for _, h := range wire {
		list = append(list, header{h.GetKey(), cmp.Or(h.GetValue(), string(h.GetRawValue()))})
	}
	return list
}

const (
	codeOver  = "OVER_LIMIT"
	unlimited = "unlimited" // the rule's word
)

// limit names the limit that applies, for people.
func (s *descriptorStatus) limit() string {
	switch {
	case s.unknown:
		return "the domain is unknown"
	case s.Limit == "":
		return "no limit applies"
	case s.Name != "":
		return fmt.Sprintf("%s %q", s.Limit, s.Name)
	}
	return s.Limit
}

// limited reports whether a limit applies that can deny.
func (s *descriptorStatus) limited() bool { return s.Limit != "" && s.Limit != unlimited }

// remaining returns what remains, "" where nothing limits.
func (s *descriptorStatus) remaining() string {
	if !s.limited() {
		return ""
	}
	return fmt.Sprintf("%d left", s.Remaining)
}

// when returns how long until there is room (over) or until the oldest hit expires (OK), and who decided if not the store.
func (s *descriptorStatus) when() (text string) {
	fits := max(1, s.hits) <= s.RequestsPerUnit // a look asks for one hit
	switch {
	case !s.limited() && s.Code != codeOver:
	case s.Code != codeOver:
		text = "resets in " + terminal.Span(s.ResetSeconds)
	case fits || !s.limited():
		text = "again in " + terminal.Span(s.ResetSeconds)
	case s.RequestsPerUnit == 0:
		text = "never again: this limit lets nothing pass"
	default:
		text = fmt.Sprintf("never: %d hits at once are more than the whole limit", s.hits)
	}
	if d := s.Degraded; d != nil {
		text += fmt.Sprintf(" (no answer from the store: %s; policy %s)", terminal.Printable(d.Reason), terminal.Printable(d.Policy))
	}
	return text
}

// code shows a verdict in four columns.
func code(p terminal.Paint, code string) string {
	switch code {
	case "OK":
		return p.Green("OK  ")
	case codeOver:
		return p.Red("OVER")
	}
	return p.Yellow(code)
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.2f ms", 1000*d.Seconds()) }

// print shows a line for each descriptor, in columns, then all that the answer carries besides.
func (a *answer) print(w io.Writer, p terminal.Paint) {
	var columns strings.Builder
	table := tabwriter.NewWriter(&columns, 0, 0, 2, ' ', 0)
	digits := 0
	for _, s := range a.Statuses {
		digits = max(digits, len(s.remaining()))
	}
	for _, s := range a.Statuses {
		fmt.Fprintf(table, "%s\t%s\t%*s\t%s\n", terminal.Printable(s.Descriptor), s.limit(), digits, s.remaining(), s.when())
	}
	_ = table.Flush() // a builder takes everything
	lines := strings.Split(columns.String(), "\n")
	for i, s := range a.Statuses {
		fmt.Fprintf(w, "%s  %s\n", code(p, s.Code), strings.TrimRight(lines[i], " "))
	}
	if rule, limited := a.Shadow["rule"].(string); limited {
		text := fmt.Sprintf("shadow mode: rule %s, %v, would have refused it", rule, a.Shadow["limit"])
		if wait, known := a.Shadow["retry_after"].(float64); known {
			text += ", again in " + terminal.Span(int64(wait))
		}
		fmt.Fprintf(w, "      %s\n", terminal.Printable(text))
	}
	label := "body"
	for text := range strings.Lines(a.Message) {
		fmt.Fprintf(w, "%4s  %s\n", label, terminal.Printable(strings.TrimRight(text, "\r\n")))
		label = ""
	}
	for _, h := range a.ResponseHeaders {
		fmt.Fprintf(w, "      header %s: %s\n", terminal.Printable(h.Name), terminal.Printable(h.Value))
	}
	for _, h := range a.RequestHeaders {
		fmt.Fprintf(w, "      upstream header %s: %s\n", terminal.Printable(h.Name), terminal.Printable(h.Value))
	}
	latency := p.Dim("answered in " + milliseconds(time.Duration(a.LatencyUS)*time.Microsecond))
	if len(a.Statuses) == 1 && a.Statuses[0].Code == a.Overall {
		fmt.Fprintf(w, "      %s\n", latency)
		return
	}
	fmt.Fprintf(w, "%s  overall, %s\n", code(p, a.Overall), latency)
}

// tightest returns the status that is over for longest, else the one with the least left; nil if no limit applies.
func (a *answer) tightest() (best *descriptorStatus) {
	for _, s := range a.Statuses {
		if s.limited() && (best == nil || s.tighterThan(best)) {
			best = s
		}
	}
	return best
}

func (s *descriptorStatus) tighterThan(t *descriptorStatus) bool {
	if over := s.Code == codeOver; over != (t.Code == codeOver) {
		return over
	} else if over {
		return s.ResetSeconds > t.ResetSeconds
	}
	return s.Remaining < t.Remaining
}

// phrase describes the tightest limit: 10/minute, again in 57s. With several descriptors it names the one.
func (a *answer) phrase() string {
	s := a.tightest()
	if s == nil && len(a.Statuses) > 0 {
		return a.Statuses[0].limit()
	} else if s == nil {
		return "no limit applies"
	}
	text := s.limit() + ", "
	if s.Code != codeOver {
		text += s.remaining() + ", "
	}
	if text += s.when(); len(a.Statuses) > 1 {
		text = terminal.Printable(s.Descriptor) + ": " + text
	}
	return text
}
