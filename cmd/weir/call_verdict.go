package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/descriptors"
)

// callOnce asks once and prints the verdict.
func (c *callCmd) callOnce(ctx context.Context, q *question, target *caller) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	target.connect(ctx)
	out := target.ask(ctx, q.request(0))
	if out.err != nil {
		return target.explain(out.err)
	}
	v := q.verdict(out)
	if c.JSON {
		if err := printJSON(c.stdout, v); err != nil {
			return err
		}
	} else {
		v.print(c.stdout, newPaint(c.stdout))
	}
	if out.over() {
		return exitOver
	}
	return nil
}

// printJSON writes one object on one line.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// verdict is an answer as --json prints it.
type verdict struct {
	Overall   string         `json:"overall"`
	LatencyUS int64          `json:"latency_us"`
	Statuses  []descVerdict  `json:"statuses"`
	Message   string         `json:"message,omitempty"`
	ToClient  []headerToSend `json:"response_headers,omitempty"`
	ToServer  []headerToSend `json:"request_headers,omitempty"`
}

// descVerdict is the answer to one descriptor.
type descVerdict struct {
	Descriptor      string `json:"descriptor"`
	Code            string `json:"code"`
	Limit           string `json:"limit"` // "" if none applies, and then the next four are zero
	RequestsPerUnit uint32 `json:"requests_per_unit"`
	Unit            string `json:"unit"`
	UnitMultiplier  uint32 `json:"unit_multiplier"`
	Name            string `json:"name"`
	Remaining       uint32 `json:"remaining"`
	ResetSeconds    int64  `json:"reset_seconds"`

	hits uint32 // asked for; 0 if they were no plain count
}

type headerToSend struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// over says whether Envoy would deny the request.
func (o *outcome) over() bool { return o.resp.GetOverallCode() == rls.RateLimitResponse_OVER_LIMIT }

// verdict puts the service's answer beside the descriptors that were asked about.
func (q *question) verdict(o outcome) verdict {
	v := verdict{
		Overall:   o.resp.GetOverallCode().String(),
		LatencyUS: o.latency.Microseconds(),
		Statuses:  []descVerdict{},
		Message:   string(o.resp.GetRawBody()),
		ToClient:  headersToSend(o.resp.GetResponseHeadersToAdd()),
		ToServer:  headersToSend(o.resp.GetRequestHeadersToAdd()),
	}
	for i, s := range o.resp.GetStatuses() {
		d := q.descriptorVerdict(s)
		if i < len(q.descriptors) {
			d.Descriptor = q.descriptors[i].String()
		}
		v.Statuses = append(v.Statuses, d)
	}
	return v
}

func (q *question) descriptorVerdict(s *rls.RateLimitResponse_DescriptorStatus) descVerdict {
	reset := s.GetDurationUntilReset().AsDuration()
	d := descVerdict{
		Code:         s.GetCode().String(),
		Remaining:    s.GetLimitRemaining(),
		ResetSeconds: int64(math.Ceil(reset.Seconds())),
	}
	if !q.refund {
		d.hits = q.hits
	}
	if l := s.GetCurrentLimit(); l != nil {
		shown := descriptors.Limit{
			Requests:   uint64(l.GetRequestsPerUnit()),
			Unit:       descriptors.Unit(l.GetUnit()),
			Multiplier: max(1, l.GetUnitMultiplier().GetValue()),
		}
		d.Limit, d.Unit, d.UnitMultiplier = shown.String(), shown.Unit.String(), shown.Multiplier
		d.RequestsPerUnit, d.Name = l.GetRequestsPerUnit(), l.GetName()
	}
	return d
}

func headersToSend(wire []*corev3.HeaderValue) []headerToSend {
	var list []headerToSend
	for _, h := range wire {
		value := h.GetValue()
		if value == "" {
			value = string(h.GetRawValue())
		}
		list = append(list, headerToSend{h.GetKey(), value})
	}
	return list
}

const codeOver = "OVER_LIMIT"

// limit names the limit that applies, for people.
func (d *descVerdict) limit() string {
	switch {
	case d.Limit == "" && d.Remaining == math.MaxUint32:
		return "unlimited"
	case d.Limit == "":
		return "no limit applies"
	case d.Name != "":
		return fmt.Sprintf("%s %q", d.Limit, d.Name)
	}
	return d.Limit
}

// left is what remains, "" where nothing limits.
func (d *descVerdict) left() string {
	if d.Limit == "" {
		return ""
	}
	return fmt.Sprintf("%d left", d.Remaining)
}

// when says how long until there is room (over) or until the oldest hit leaves (OK).
func (d *descVerdict) when() string {
	switch {
	case d.Code == codeOver && d.neverFits() && d.RequestsPerUnit == 0:
		return "never again: this limit lets nothing pass"
	case d.Code == codeOver && d.neverFits():
		return fmt.Sprintf("never: %d hits at once are more than the whole limit", d.hits)
	case d.Code == codeOver:
		return "again in " + span(d.ResetSeconds)
	case d.Limit == "":
		return ""
	}
	return "resets in " + span(d.ResetSeconds)
}

// neverFits says whether no wait can make room for this many hits; a look asks for one.
func (d *descVerdict) neverFits() bool {
	return d.Limit != "" && max(1, d.hits) > d.RequestsPerUnit
}

// span writes seconds as 41s, 9m 12s, 3h 5m or 2d 4h.
func span(seconds int64) string {
	parts := []struct {
		length int64
		letter string
	}{{86400, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}}
	for i, p := range parts[:3] {
		if seconds < p.length {
			continue
		}
		next := parts[i+1]
		if rest := seconds % p.length / next.length; rest > 0 {
			return fmt.Sprintf("%d%s %d%s", seconds/p.length, p.letter, rest, next.letter)
		}
		return fmt.Sprintf("%d%s", seconds/p.length, p.letter)
	}
	return fmt.Sprintf("%ds", seconds)
}

// print shows the verdict: a line for each descriptor, in columns, then all that the answer carries besides.
func (v *verdict) print(w io.Writer, p paint) {
	var what, limits, lefts int // widths of the columns
	for i := range v.Statuses {
		d := &v.Statuses[i]
		what = max(what, utf8.RuneCountInString(printable(d.Descriptor)))
		limits = max(limits, utf8.RuneCountInString(d.limit()))
		lefts = max(lefts, len(d.left()))
	}
	for i := range v.Statuses {
		d := &v.Statuses[i]
		line := fmt.Sprintf("%-*s  %-*s  %*s  %s",
			what, printable(d.Descriptor), limits, d.limit(), lefts, d.left(), d.when())
		fmt.Fprintf(w, "%s  %s\n", p.code(d.Code), strings.TrimRight(line, " "))
	}
	if v.Message != "" {
		label := "body"
		for text := range strings.Lines(v.Message) {
			fmt.Fprintf(w, "%4s  %s\n", label, printable(strings.TrimRight(text, "\r\n")))
			label = ""
		}
	}
	for _, h := range v.ToClient {
		fmt.Fprintf(w, "      header %s: %s\n", printable(h.Name), printable(h.Value))
	}
	for _, h := range v.ToServer {
		fmt.Fprintf(w, "      upstream header %s: %s\n", printable(h.Name), printable(h.Value))
	}
	latency := p.dim("answered in " + milliseconds(time.Duration(v.LatencyUS)*time.Microsecond))
	if len(v.Statuses) == 1 && v.Statuses[0].Code == v.Overall {
		fmt.Fprintf(w, "      %s\n", latency)
		return
	}
	fmt.Fprintf(w, "%s  overall, %s\n", p.code(v.Overall), latency)
}

// tightest is the status that a client feels most: the one over for longest, else the one with the least left. Nil if
// no limit applies to any.
func (v *verdict) tightest() *descVerdict {
	var best *descVerdict
	for i := range v.Statuses {
		d := &v.Statuses[i]
		if d.Limit != "" && (best == nil || d.tighterThan(best)) {
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

// phrase tells the tightest limit in one breath: 10/minute, again in 57s. With several descriptors it says which.
func (v *verdict) phrase() string {
	d := v.tightest()
	if d == nil {
		return "no limit applies"
	}
	text := d.limit() + ", "
	if d.Code != codeOver {
		text += d.left() + ", "
	}
	if text += d.when(); len(v.Statuses) > 1 {
		text = printable(d.Descriptor) + ": " + text
	}
	return text
}
