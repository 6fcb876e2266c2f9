package callcmd

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// report counts many calls, prints a line for each change and each second (not with --json), and sums up at the end.
type report struct {
	summary
	latencies histogram

	*client
	out   io.Writer
	paint terminal.Paint

	last     *outcome // the last answer; nil before the first
	over     bool     // and its verdict
	events   int      // changes since the last progress line
	sentThen uint64   // when the last progress line was written
	then     time.Duration
}

// summary is what came of many calls, as --json prints it. Latencies are in microseconds.
type summary struct {
	Sent     uint64 `json:"sent"`
	OK       uint64 `json:"ok"`
	Over     uint64 `json:"over"`
	Failed   uint64 `json:"errors"`
	Degraded uint64 `json:"degraded"` // answers that the store did not decide, or not all of
	Shadowed uint64 `json:"shadowed"` // answers that would be refusals but for shadow mode
	Unsent   uint64 `json:"unsent"`   // due, but all workers were waiting for answers
	Changes  uint64 `json:"changes"`  // from OK to over or back

	Seconds float64             `json:"seconds"`
	Rate    float64             `json:"rate"`
	Latency percentiles         `json:"latency_us"`
	Errors  map[string]*failure `json:"error_codes"`
}

type percentiles struct {
	P50 int64 `json:"p50"`
	P90 int64 `json:"p90"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

// failure is what one gRPC code stands for among many calls.
type failure struct {
	Count   uint64 `json:"count"`
	Message string `json:"message"` // the first one
}

func newReport(c *client, w io.Writer) *report {
	return &report{summary: summary{Errors: make(map[string]*failure)}, client: c, out: w, paint: terminal.PaintFor(w)}
}

func (r *report) begin() {
	if r.JSON {
		return
	}
	pace, length, keys := "as fast as it answers", "until Ctrl-C", ""
	if r.client.Rate > 0 {
		pace = fmt.Sprintf("%v a second", r.client.Rate)
	}
	if r.For > 0 {
		length = "for " + r.For.String()
	}
	if r.Keys > 1 {
		keys = fmt.Sprintf(", %d keys in turn", r.Keys)
	}
	var what []string
	for _, d := range r.descriptors {
		what = append(what, terminal.Printable(d.String()))
	}
	fmt.Fprintf(r.out, "asking %s about %s %s, %s %s%s\n",
		r.Addr, terminal.Printable(r.Domain), strings.Join(what, " and "), pace, length, keys)
}

// follow counts outcomes until the channel closes, printing as it goes.
func (r *report) follow(start time.Time, results <-chan outcome) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case o, more := <-results:
			if !more {
				return
			}
			r.add(time.Since(start), &o)
		case <-tick.C:
			r.progress(time.Since(start))
		}
	}
}

// maxEvents is how many changes are printed between two progress lines: more would drown the rest.
const maxEvents = 10

// add counts an outcome that came at an offset from the start.
func (r *report) add(at time.Duration, o *outcome) {
	r.Sent++
	if o.err != nil {
		r.addError(o.err)
		return
	}
	r.latencies.add(o.latency)
	if o.over() {
		r.Over++
	} else {
		r.OK++
	}
	if len(o.metadata("degraded").GetListValue().GetValues()) > 0 {
		r.Degraded++
	}
	if o.metadata("shadow_denied") != nil {
		r.Shadowed++
	}
	changed := o.over() != r.over && r.Keys == 1
	r.over, r.last = o.over(), o
	if changed {
		r.change(at)
	}
}

func (r *report) addError(err error) {
	r.Failed++
	s := status.Convert(err)
	code := s.Code().String()
	if r.Errors[code] == nil {
		message, _ := dialFailure(s.Message())
		r.Errors[code] = &failure{Message: message}
	}
	r.Errors[code].Count++
}

func (r *report) change(at time.Duration) {
	r.Changes++
	if r.events++; r.JSON || r.events > maxEvents {
		return
	}
	word := r.paint.Green("OK again")
	if r.over {
		word = r.paint.Red("over")
	}
	fmt.Fprintf(r.out, "%5.1fs  %s: %s\n", at.Seconds(), word, r.answer(r.last).phrase())
}

func (r *report) progress(at time.Duration) {
	if r.JSON {
		return
	}
	rate := float64(r.Sent-r.sentThen) / (at - r.then).Seconds()
	text := fmt.Sprintf("%5.0fs  %d sent (%.0f/s), %s", at.Seconds(), r.Sent, rate, r.counts())
	if r.last != nil {
		text += "; last: " + r.answer(r.last).phrase()
	}
	if hidden := r.events - maxEvents; hidden > 0 {
		text += fmt.Sprintf(" (%d more changes)", hidden)
	}
	r.events, r.sentThen, r.then = 0, r.Sent, at
	fmt.Fprintln(r.out, text)
}

// counts lists the outcomes, coloured where there are any.
func (r *report) counts() string {
	shade := func(n uint64, word string, colour func(string) string) string {
		text := fmt.Sprintf("%d %s", n, word)
		if n > 0 {
			text = colour(text)
		}
		return text
	}
	return shade(r.OK, "OK", r.paint.Green) + ", " + shade(r.Over, "over", r.paint.Red) + ", " +
		shade(r.Failed, "errors", r.paint.Yellow)
}

// end prints the summary of calls that went on for this long.
func (r *report) end(took time.Duration) error {
	r.Seconds, r.Rate = took.Seconds(), float64(r.Sent)/took.Seconds()
	h := &r.latencies
	if r.JSON {
		r.Latency = percentiles{h.quantile(0.5).Microseconds(), h.quantile(0.9).Microseconds(), h.quantile(0.99).Microseconds(),
			h.max.Microseconds()}
		return terminal.WriteJSON(r.out, r.summary)
	}
	fmt.Fprintf(r.out, "\n%d sent in %.1fs (%.1f/s): %s\n", r.Sent, r.Seconds, r.Rate, r.counts())
	if r.Unsent > 0 {
		fmt.Fprintf(r.out, "%d more were due, but --concurrency was used up: raise it, or lower --rate\n", r.Unsent)
	}
	if r.Degraded > 0 {
		fmt.Fprintf(r.out, "%d of the answers are degraded: the store gave none, and a failure policy decided\n", r.Degraded)
	}
	if r.Shadowed > 0 {
		fmt.Fprintf(r.out, "%d of the answers would be refusals but for shadow mode\n", r.Shadowed)
	}
	if h.total > 0 {
		fmt.Fprintf(r.out, "latency  p50 %s   p90 %s   p99 %s   max %s\n", milliseconds(h.quantile(0.5)),
			milliseconds(h.quantile(0.9)), milliseconds(h.quantile(0.99)), milliseconds(h.max))
	}
	for _, code := range slices.Sorted(maps.Keys(r.Errors)) {
		f := r.Errors[code]
		fmt.Fprintf(r.out, "%s  %d times, first: %s\n", r.paint.Yellow(code), f.Count, terminal.Printable(f.Message))
	}
	return nil
}

// histogram counts durations in buckets, 64 for each doubling, so that a percentile is at most 1.1 % too high.
type histogram struct {
	counts [64 * 64]uint64
	total  uint64
	max    time.Duration
}

func (h *histogram) add(d time.Duration) {
	h.counts[int(math.Ceil(64*math.Log2(float64(max(1, d)))))]++
	h.total++
	h.max = max(h.max, d)
}

// quantile returns the duration that a part q of all (0 to 1) do not exceed; 0 if there are none.
func (h *histogram) quantile(q float64) time.Duration {
	want := max(1, uint64(math.Ceil(q*float64(h.total))))
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= want {
			return min(h.max, time.Duration(math.Ceil(math.Exp2(float64(i)/64))))
		}
	}
	return h.max
}
