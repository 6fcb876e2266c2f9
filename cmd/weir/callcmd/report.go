package callcmd

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// reporter shows how many calls go: events and a progress line meanwhile (not with --json), and a summary at the end.
type reporter struct {
	out      io.Writer
	json     bool
	terminal bool // the progress line is rewritten in place
	paint    terminal.Paint
	question *question
	tally    tally

	last     *outcome // the last answer; nil before the first
	over     bool     // and its verdict
	events   int      // changes since the last progress line
	sentThen uint64   // when the last progress line was written
	then     time.Duration
}

func newReporter(c *Command, q *question, w io.Writer) *reporter {
	return &reporter{out: w, json: c.JSON, terminal: !c.JSON && terminal.Is(w), paint: terminal.PaintFor(w), question: q,
		tally: tally{errors: make(map[string]*failure)}}
}

func (r *reporter) begin(c *Command) {
	if r.json {
		return
	}
	pace, length := "as fast as it answers", "until Ctrl-C"
	if c.Rate > 0 {
		pace = fmt.Sprintf("%v a second", c.Rate)
	}
	if c.For > 0 {
		length = "for " + c.For.String()
	}
	var what []string
	for _, d := range r.question.descriptors {
		what = append(what, terminal.Printable(d.String()))
	}
	keys := ""
	if c.Keys > 1 {
		keys = fmt.Sprintf(", %d keys in turn", c.Keys)
	}
	fmt.Fprintf(r.out, "asking %s about %s %s, %s %s%s\n",
		c.Addr, terminal.Printable(c.Domain), strings.Join(what, " and "), pace, length, keys)
}

// follow counts outcomes until the channel closes, printing as it goes.
func (r *reporter) follow(start time.Time, results <-chan outcome) {
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

// maxEvents is how many changes are told between two progress lines: more would drown the rest.
const maxEvents = 10

func (r *reporter) add(at time.Duration, o *outcome) {
	r.tally.add(at, o)
	if o.err != nil {
		return
	}
	changed := o.over() != r.over && r.question.keys == 1
	r.over, r.last = o.over(), o
	if !changed {
		return
	}
	r.tally.changes++
	if r.events++; r.json || r.events > maxEvents {
		return
	}
	word := r.paint.Green("OK again")
	if r.over {
		word = r.paint.Red("over")
	}
	r.line(fmt.Sprintf("%5.1fs  %s: %s", at.Seconds(), word, r.lastPhrase()))
}

func (r *reporter) lastPhrase() string {
	v := r.question.verdict(*r.last)
	return v.phrase()
}

// line prints a line that stays. On a terminal it replaces the progress line, which comes again with the next second.
func (r *reporter) line(text string) {
	if r.terminal {
		terminal.Clear(r.out)
	}
	fmt.Fprintln(r.out, text)
}

func (r *reporter) progress(at time.Duration) {
	if r.json {
		return
	}
	t := &r.tally
	rate := float64(t.sent()-r.sentThen) / (at - r.then).Seconds()
	text := fmt.Sprintf("%5.0fs  %d sent (%.0f/s), %s", at.Seconds(), t.sent(), rate, r.counts())
	if r.last != nil {
		text += "; last: " + r.lastPhrase()
	}
	if hidden := r.events - maxEvents; hidden > 0 {
		text += fmt.Sprintf(" (%d more changes)", hidden)
	}
	r.events, r.sentThen, r.then = 0, t.sent(), at
	if r.terminal {
		terminal.Rewrite(r.out, text)
	} else {
		fmt.Fprintln(r.out, text)
	}
}

// counts tells the outcomes, coloured where there are any.
func (r *reporter) counts() string {
	t := &r.tally
	shade := func(n uint64, word string, colour func(string) string) string {
		text := fmt.Sprintf("%d %s", n, word)
		if n > 0 {
			text = colour(text)
		}
		return text
	}
	return shade(t.OK, "OK", r.paint.Green) + ", " + shade(t.Over, "over", r.paint.Red) + ", " +
		shade(t.Failed, "errors", r.paint.Yellow)
}

// end prints the summary of calls that went on for this long.
func (r *reporter) end(took time.Duration) error {
	if r.json {
		return terminal.WriteJSON(r.out, r.tally.summary(took))
	}
	t := &r.tally
	rate := float64(t.sent()) / took.Seconds()
	r.line("")
	fmt.Fprintf(r.out, "%d sent in %.1fs (%.1f/s): %s\n", t.sent(), took.Seconds(), rate, r.counts())
	if t.unsent > 0 {
		fmt.Fprintf(r.out, "%d more were due, but --concurrency was used up: raise it, or lower --rate\n", t.unsent)
	}
	if t.degraded > 0 {
		fmt.Fprintf(r.out, "%d of the answers are degraded: Redis gave none, and a failure policy decided\n", t.degraded)
	}
	if t.shadowed > 0 {
		fmt.Fprintf(r.out, "%d of the answers would be refusals but for shadow mode\n", t.shadowed)
	}
	if h := &t.latency; h.total > 0 {
		fmt.Fprintf(r.out, "latency  p50 %s   p90 %s   p99 %s   max %s\n", milliseconds(h.quantile(0.5)),
			milliseconds(h.quantile(0.9)), milliseconds(h.quantile(0.99)), milliseconds(h.max))
	}
	for _, code := range slices.Sorted(maps.Keys(t.errors)) {
		f := t.errors[code]
		fmt.Fprintf(r.out, "%s  %d times, first: %s\n", r.paint.Yellow(code), f.Count, terminal.Printable(f.Message))
	}
	r.drawTimeline()
	return nil
}

// drawTimeline shows OK, over and errors over time, a row each; rows without any are left out.
func (r *reporter) drawTimeline() {
	l := &r.tally.timeline
	if l.used < 3 {
		return
	}
	var peak uint64
	for _, c := range l.columns[:l.used] {
		peak = max(peak, c.OK, c.Over, c.Failed)
	}
	row := func(label string, colour func(string) string, total uint64, of func(outcomes) uint64) {
		if total == 0 {
			return
		}
		var bar strings.Builder
		for _, c := range l.columns[:l.used] {
			bar.WriteByte(shadeOf(of(c), peak))
		}
		fmt.Fprintf(r.out, "%-6s |%s|\n", label, colour(bar.String()))
	}
	row("OK", r.paint.Green, r.tally.OK, func(c outcomes) uint64 { return c.OK })
	row("over", r.paint.Red, r.tally.Over, func(c outcomes) uint64 { return c.Over })
	row("errors", r.paint.Yellow, r.tally.Failed, func(c outcomes) uint64 { return c.Failed })
	fmt.Fprintf(r.out, "        each column %v; blank is none, %c is %d\n", l.width, shades[len(shades)-1], peak)
}

const shades = " .:-=+*#"

// shadeOf returns a character that is darker the nearer n is to the peak; only 0 is blank.
func shadeOf(n, peak uint64) byte {
	if n == 0 {
		return shades[0]
	}
	steps := uint64(len(shades) - 1)
	return shades[(n*steps+peak-1)/peak]
}

// summary is what came of many calls, as --json prints it. Latencies are in microseconds.
type summary struct {
	Sent uint64 `json:"sent"`
	outcomes
	Degraded  uint64              `json:"degraded"`
	Shadowed  uint64              `json:"shadowed"`
	Unsent    uint64              `json:"unsent"`
	Changes   uint64              `json:"changes"`
	Seconds   float64             `json:"seconds"`
	Rate      float64             `json:"rate"`
	Latency   percentiles         `json:"latency_us"`
	ErrorCode map[string]*failure `json:"error_codes"`
	Timeline  columns             `json:"timeline"`
}

type percentiles struct {
	P50 int64 `json:"p50"`
	P90 int64 `json:"p90"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

type columns struct {
	WidthSeconds float64  `json:"width_seconds"`
	OK           []uint64 `json:"ok"`
	Over         []uint64 `json:"over"`
	Errors       []uint64 `json:"errors"`
}

func (t *tally) summary(took time.Duration) summary {
	quantile := func(q float64) int64 { return t.latency.quantile(q).Microseconds() }
	s := summary{
		Sent: t.sent(), outcomes: t.outcomes, Degraded: t.degraded, Shadowed: t.shadowed, Unsent: t.unsent, Changes: t.changes,
		Seconds: took.Seconds(), Rate: float64(t.sent()) / took.Seconds(),
		Latency:   percentiles{quantile(0.5), quantile(0.9), quantile(0.99), t.latency.max.Microseconds()},
		ErrorCode: t.errors,
		Timeline:  columns{t.timeline.width.Seconds(), []uint64{}, []uint64{}, []uint64{}},
	}
	for _, m := range t.timeline.columns[:t.timeline.used] {
		s.Timeline.OK = append(s.Timeline.OK, m.OK)
		s.Timeline.Over = append(s.Timeline.Over, m.Over)
		s.Timeline.Errors = append(s.Timeline.Errors, m.Failed)
	}
	return s
}
