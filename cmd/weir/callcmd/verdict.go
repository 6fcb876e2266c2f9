package callcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
)

func (c *Command) callOnce(ctx context.Context, q *question, target *caller, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	target.connect(ctx)
	out := target.ask(ctx, q.request(0))
	if out.err != nil {
		return target.describe(out.err)
	}
	v := q.verdict(out)
	if c.JSON {
		if err := terminal.WriteJSON(w, v); err != nil {
			return err
		}
	} else {
		v.print(w, terminal.PaintFor(w))
	}
	switch {
	case v.UnknownDomain:
		return unknownDomain(c.Domain)
	case out.over():
		return terminal.No
	}
	return nil
}

// verdict is an answer as --json prints it.
type verdict struct {
	Overall   string         `json:"overall"`
	LatencyUS int64          `json:"latency_us"`
	Statuses  []*descVerdict `json:"statuses"`
	Message   string         `json:"message,omitempty"`
	ToClient  []headerToSend `json:"response_headers,omitempty"`
	ToServer  []headerToSend `json:"request_headers,omitempty"`

	Shadow        map[string]any `json:"shadow_denied,omitempty"` // what shadow mode let pass: rule, limit, retry_after and others
	UnknownDomain bool           `json:"unknown_domain,omitempty"`
}

type descVerdict struct {
	Descriptor      string `json:"descriptor"`
	Code            string `json:"code"`
	Limit           string `json:"limit"` // unlimited, or "" if none applies, and then the next four are zero
	RequestsPerUnit uint32 `json:"requests_per_unit"`
	Unit            string `json:"unit"`
	UnitMultiplier  uint32 `json:"unit_multiplier"`
	Name            string `json:"name"`
	Remaining       uint32 `json:"remaining"`
	ResetSeconds    int64  `json:"reset_seconds"`

	Degraded *degradation `json:"degraded,omitempty"` // nil if the store decided

	hits    uint32 // asked for; 0 if they were no plain count
	unknown bool   // nothing configures the domain
}

type headerToSend struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// over reports whether Envoy would deny the request.
func (o *outcome) over() bool { return o.resp.GetOverallCode() == rls.RateLimitResponse_OVER_LIMIT }

// verdict returns the service's answer beside the descriptors that were asked about.
func (q *question) verdict(o outcome) verdict {
	v := verdict{
		Overall:   o.resp.GetOverallCode().String(),
		LatencyUS: o.latency.Microseconds(),
		Statuses:  []*descVerdict{},
		Message:   string(o.resp.GetRawBody()),
		ToClient:  headersToSend(o.resp.GetResponseHeadersToAdd()),
		ToServer:  headersToSend(o.resp.GetRequestHeadersToAdd()),
		Shadow:    o.said("shadow_denied").GetStructValue().AsMap(), UnknownDomain: o.said("unknown_domain").GetBoolValue(),
	}
	degraded := degradations(&o)
	for i, s := range o.resp.GetStatuses() {
		d := q.descriptorVerdict(s)
		d.Degraded, d.unknown = degraded[i], v.UnknownDomain
		if i < len(q.descriptors) {
			d.Descriptor = q.descriptors[i].String()
		}
		v.Statuses = append(v.Statuses, d)
	}
	return v
}

func (q *question) descriptorVerdict(s *rls.RateLimitResponse_DescriptorStatus) *descVerdict {
	reset := s.GetDurationUntilReset().AsDuration()
	d := &descVerdict{
		Code: s.GetCode().String(), Remaining: s.GetLimitRemaining(), ResetSeconds: int64(math.Ceil(reset.Seconds())),
	}
	if !q.refund {
		d.hits = q.hits
	}
	if l := s.GetCurrentLimit(); l != nil {
		shown := descriptors.Limit{Requests: uint64(l.GetRequestsPerUnit()), Unit: descriptors.Unit(l.GetUnit()),
			Multiplier: max(1, l.GetUnitMultiplier().GetValue())}
		d.Limit, d.Unit, d.UnitMultiplier = shown.String(), shown.Unit.String(), shown.Multiplier
		d.RequestsPerUnit, d.Name = l.GetRequestsPerUnit(), l.GetName()
	} else if d.Remaining == math.MaxUint32 {
		d.Limit = unlimited
	}
	return d
}

func headersToSend(wire []*corev3.HeaderValue) []headerToSend {
	var list []headerToSend
	for _, h := range wire {
		list = append(list, headerToSend{h.GetKey(), cmp.Or(h.GetValue(), string(h.GetRawValue()))})
	}
	return list
}

const (
	codeOver  = "OVER_LIMIT"
	unlimited = "unlimited" // the rule's word
)

// limit names the limit that applies, for people.
func (d *descVerdict) limit() string {
	switch {
	case d.unknown:
		return "the domain is unknown"
	case d.Limit == "":
		return "no limit applies"
	case d.Name != "":
		return fmt.Sprintf("%s %q", d.Limit, d.Name)
	}
	return d.Limit
}

// left returns what remains, "" where nothing limits.
func (d *descVerdict) left() string {
	if d.Limit == "" || d.Limit == unlimited {
		return ""
	}
	return fmt.Sprintf("%d left", d.Remaining)
}

// when tells how long until there is room (over) or until the oldest hit leaves (OK).
func (d *descVerdict) when() string {
	switch {
	case d.Code == codeOver && d.neverFits() && d.RequestsPerUnit == 0:
		return "never again: this limit lets nothing pass"
	case d.Code == codeOver && d.neverFits():
		return fmt.Sprintf("never: %d hits at once are more than the whole limit", d.hits)
	case d.Code == codeOver:
		return "again in " + terminal.Span(d.ResetSeconds)
	case d.left() == "":
		return ""
	}
	return "resets in " + terminal.Span(d.ResetSeconds)
}

// neverFits reports whether no wait can make room for this many hits; a look asks for one.
func (d *descVerdict) neverFits() bool {
	return d.left() != "" && max(1, d.hits) > d.RequestsPerUnit
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

// milliseconds writes a latency with three digits or so: 0.42 ms, 12.3 ms, 250 ms.
func milliseconds(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms < 10:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}

// print shows the verdict: a line for each descriptor, in columns, then all that the answer carries besides.
func (v *verdict) print(w io.Writer, p terminal.Paint) {
	var what, limits, lefts int // widths of the columns
	for _, d := range v.Statuses {
		what = max(what, utf8.RuneCountInString(terminal.Printable(d.Descriptor)))
		limits = max(limits, utf8.RuneCountInString(d.limit()))
		lefts = max(lefts, len(d.left()))
	}
	for _, d := range v.Statuses {
		line := fmt.Sprintf("%-*s  %-*s  %*s  %s%s",
			what, terminal.Printable(d.Descriptor), limits, d.limit(), lefts, d.left(), d.when(), d.Degraded)
		fmt.Fprintf(w, "%s  %s\n", code(p, d.Code), strings.TrimRight(line, " "))
	}
	if rule, limited := v.Shadow["rule"].(string); limited {
		text := fmt.Sprintf("shadow mode: rule %s, %v, would have refused it", rule, v.Shadow["limit"])
		if wait, known := v.Shadow["retry_after"].(float64); known {
			text += ", again in " + terminal.Span(int64(wait))
		}
		fmt.Fprintf(w, "      %s\n", terminal.Printable(text))
	}
	label := "body"
	for text := range strings.Lines(v.Message) {
		fmt.Fprintf(w, "%4s  %s\n", label, terminal.Printable(strings.TrimRight(text, "\r\n")))
		label = ""
	}
	for _, h := range v.ToClient {
		fmt.Fprintf(w, "      header %s: %s\n", terminal.Printable(h.Name), terminal.Printable(h.Value))
	}
	for _, h := range v.ToServer {
		fmt.Fprintf(w, "      upstream header %s: %s\n", terminal.Printable(h.Name), terminal.Printable(h.Value))
	}
	latency := p.Dim("answered in " + milliseconds(time.Duration(v.LatencyUS)*time.Microsecond))
	if len(v.Statuses) == 1 && v.Statuses[0].Code == v.Overall {
		fmt.Fprintf(w, "      %s\n", latency)
		return
	}
	fmt.Fprintf(w, "%s  overall, %s\n", code(p, v.Overall), latency)
}

// tightest returns the status that is over for longest, else the one with the least left; nil if no limit applies.
func (v *verdict) tightest() *descVerdict {
	var best *descVerdict
	for _, d := range v.Statuses {
		if d.left() != "" && (best == nil || d.tighterThan(best)) {
			best = d
		}
	}
	return best
}

func (d *descVerdict) tighterThan(e *descVerdict) bool {
	if over := d.Code == codeOver; over != (e.Code == codeOver) {
		return over
	} else if over {
		return d.ResetSeconds > e.ResetSeconds
	}
	return d.Remaining < e.Remaining
}

// phrase describes the tightest limit: 10/minute, again in 57s. With several descriptors it names the one.
func (v *verdict) phrase() string {
	d := v.tightest()
	if d == nil && len(v.Statuses) > 0 {
		return v.Statuses[0].limit()
	} else if d == nil {
		return "no limit applies"
	}
	text := d.limit() + ", "
	if d.Code != codeOver {
		text += d.left() + ", "
	}
	if text += d.when() + d.Degraded.String(); len(v.Statuses) > 1 {
		text = terminal.Printable(d.Descriptor) + ": " + text
	}
	return text
}
