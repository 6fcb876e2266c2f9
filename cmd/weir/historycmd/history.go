// Package historycmd has the commands weir history, which shows hits over time, weir suggest and weir downsample.
package historycmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // for local days in images without time zones

	"github.com/alecthomas/kong"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/cmd/weir/adminport"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	historyapi "github.com/weirproxy/weir/server/history"
)

// Command shows hits over time.
type Command struct {
	Show   showCommand   `cmd:"" help:"Draw the hits of a rule over time."`
	Top    topCommand    `cmd:"" help:"List the rules with the most hits."`
	Verify verifyCommand `cmd:"" help:"Prove that the history holds, to the integer, all that was counted."`
	Export exportCommand `cmd:"" help:"Write what is stored as CSV or OpenMetrics."`
	Import importCommand `cmd:"" help:"Count the rows of a CSV file, as export writes it."`
	Move   moveCommand   `cmd:"" help:"Bring a history on a ring of Redis servers to other nodes, live."`
	Demo   demoCommand   `cmd:"" help:"Fill an empty history with a year of made-up hits."`
	Serve  serveCommand  `cmd:"" help:"Answer Grafana and the page over the history of a fleet, and limit nothing."`
}

// Help returns what weir history --help shows below the first sentence.
func (*Command) Help() string {
	return `Opens the Redis that the environment names, as weir serve reads it. A history that is not in Redis belongs to its
weir serve, which is asked on its admin port; with --admin that is so in any case.

    weir history top  --from -7d --by over                                          who was denied last week
    weir history show --path user/path=/pay --from 2025-11-15 --to 2025-11-16       a day, a year ago
    weir history show --domain shop --from -30d --step 1d --tz Europe/Berlin        a month, by local days

Times are -90m, -12h, -30d, -2w or -1y before now, 14:03 (the last; for --to the first after --from), 2026-11-15,
'2026-11-15 12:00', RFC 3339 or Unix seconds. ` + exitCodes
}

// exitCodes describes the exit codes of commands that read a history, for their help.
const exitCodes = `Exit code: 0; 1 if a series that was asked for cannot be read or, for
verify, is not exact; 2 for an error; 3 if there is nothing of what was asked for, or no history yet.`

// readFlags are the flags of commands that read a history: where it is, and which rules to read.
type readFlags struct {
	Domain string `placeholder:"NAME" help:"Only rules of this domain."`
	Path   string `placeholder:"K=V/K=V" help:"Only this rule, by its path."`
	//lint:ignore SA5008 kong takes each set
	adminport.Port `set:"admin=without a Redis, " set:"timeout=60s"`

	settings *config.Settings // of the environment, once askRedis has read them
	source   string           // where the history was read, set by askRedis
}

// printFlags are the flags of commands that print an answer.
type printFlags struct {
	readFlags
	JSON bool `name:"json" help:"Print the answer as JSON."`
}

// seriesFlags select series of the rules, for show and export.
type seriesFlags struct {
	Outcome string `placeholder:"NAME" help:"Only within, over (denied), shadow, degraded or near."`
	valueFlag
}

// valueFlag selects one value of the rules, for show, top and export.
type valueFlag struct {
	Value string `placeholder:"K=V,K=V" help:"Only this value, of a rule that counts values each by itself: tenant=acme."`
}

// rangeFlags select a time range, for show, top and export.
type rangeFlags struct {
	From Moment `placeholder:"T" help:"Where to begin: -30d, 2026-11-15 (the beginning of that day), or '2026-11-15 12:00'; by default an hour before --to (export: the first hit; suggest and simulate: 30 days before)."`
	To   Moment `placeholder:"T" help:"Where to end, likewise: 2026-11-16 is the beginning of that day. By default now (OpenMetrics: 3 hours ago)."`
	TZ   string `name:"tz" placeholder:"ZONE" help:"Read and show times, and cut days, as in this time zone, such as Europe/Berlin; by default that of this process."`
}

// addTo adds the range to a query. Days, and times without a zone, are in the zone of --tz or else of the output,
// which may differ from that of the answering weir.
func (r *rangeFlags) addTo(q url.Values, out *terminal.Output) error {
	if err := out.SetZone(r.TZ); err != nil {
		return err
	}
	out.Zone = namedZone(out.Zone)
	now := time.Now()
	q.Set("from", r.From.In(out.Zone, now))
	q.Set("to", r.To.After(r.From, out.Zone, now))
	q.Set("tz", out.Zone.String())
	return nil
}

// namedZone returns a zone that other weirs know by its name: UTC if it has none, as when /etc/localtime is a copy.
func namedZone(zone *time.Location) *time.Location {
	name := zone.String()
	if name == "Local" {
		name, _ = os.Readlink("/etc/localtime")
	}
	if _, below, isFile := strings.Cut(name, "zoneinfo/"); isFile {
		name = below
	}
	if known, err := time.LoadLocation(name); err == nil {
		return known
	}
	return time.UTC
}

// Moment is a flag with a time, as weir history reads it.
type Moment string

// In returns the moment for a weir in another zone: it converts a local time to Unix seconds.
func (m Moment) In(zone *time.Location, now time.Time) string {
	if at, local := history.ParseLocal(string(m), now, zone); local && at >= 0 {
		return strconv.FormatInt(at, 10)
	}
	return string(m)
}

// After is In for the end of a range that begins with another moment; see [history.ParseClockAfter].
func (m Moment) After(from Moment, zone *time.Location, now time.Time) string {
	if at, ok := history.ParseClockAfter(string(m), string(from), now, zone); ok {
		return strconv.FormatInt(at, 10)
	}
	return m.In(zone, now)
}

// Decode reads the next argument. Unlike values of other flags it may begin with a hyphen: -30d.
func (m *Moment) Decode(ctx *kong.DecodeContext) error {
	token := ctx.Scan.Pop()
	text, isText := token.Value.(string)
	if !isText || text == "" || strings.HasPrefix(text, "--") {
		return errors.New("a time is missing, such as -30d")
	}
	*m = Moment(text)
	return nil
}

// printAnswer prints the answer to a query: from the Redis that the environment names or, without one, from an admin
// port, at a path below /api/v1/history. With --json it prints the port's JSON, else the result of describe.
func printAnswer[Answer any](ctx context.Context, p *printFlags, out terminal.Output, q url.Values, path string,
	answer func(*historyapi.History, context.Context, historyapi.Parameters) (Answer, error),
	describe func(*Answer) (string, error)) (a Answer, err error) {
	if a, err = ask(ctx, &p.readFlags, q, path, answer); err != nil {
		return a, err
	}
	if p.JSON {
		if origin, is := any(&a).(interface{ SetSource(string) }); is {
			origin.SetSource(p.source)
		}
		return a, terminal.WriteJSON(out.Out, a)
	}
	p.printSource(out)
	text, err := describe(&a)
	if err == nil {
		_, err = io.WriteString(out.Out, text)
	}
	return a, err
}

// ask returns the answer to a query, from the Redis that the environment names or, without one, from an admin port.
func ask[Answer any](ctx context.Context, s *readFlags, q url.Values, path string,
	answer func(*historyapi.History, context.Context, historyapi.Parameters) (Answer, error)) (a Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	asked, err := s.askRedis(func(h *historyapi.History) (err error) {
		a, err = answer(h, ctx, historyapi.Parameters(q))
		return err
	})
	if asked || err != nil {
		return a, err
	}
	body, err := s.Ask(ctx, http.MethodGet, "/api/v1/history"+path, q)
	if err == nil && json.Unmarshal(body, &a) != nil {
		err = fmt.Errorf("what %s answers is not what weir answers", s.Address)
	}
	return a, err
}

// printSource prints where the history was read.
func (s *readFlags) printSource(out terminal.Output) {
	fmt.Fprintf(out.Err, "Read from %s.\n", descriptors.Printable(s.source))
}

// RuleFlags select one rule and a range of its history, for commands that work with its hits.
type RuleFlags struct {
	readFlags
	rangeFlags
}

// Read returns the stored series of the rule, one per stored value and outcome, without near, which is part of within.
// It returns an error if there are none, or if several domains have the path.
func (f *RuleFlags) Read(ctx context.Context, out *terminal.Output) (*historyapi.HistoryAnswer, error) {
	if f.Path == "" {
		return nil, errors.New("name a rule by --path, as weir history top lists them")
	}
	if f.From == "" {
		f.From = "-30d"
	}
	q := url.Values{"domain": {f.Domain}, "path": {f.Path}}
	if err := f.addTo(q, out); err != nil {
		return nil, err
	}
	a, err := ask(ctx, &f.readFlags, q, "", (*historyapi.History).Show)
	if err != nil {
		return nil, err
	}
	f.printSource(*out)
	var warnings strings.Builder
	writeWarnings(&warnings, a.Warnings, terminal.PaintFor(out.Err))
	fmt.Fprint(out.Err, &warnings)
	found := len(a.Series) > 0
	a.Series = slices.DeleteFunc(a.Series, func(s historyapi.SeriesAnswer) bool { return s.Outcome == history.Near.String() || s.Total == 0 })
	switch {
	case !found:
		return nil, f.errNoSeries(q, a.Lag, a.Warnings)
	case len(a.Series) == 0:
		return nil, terminal.EmptyError(strings.TrimSpace(describeNoHits(&a.Metadata, out.Zone)))
	}
	if first, last := a.Series[0].Domain, a.Series[len(a.Series)-1].Domain; first != last { // sorted by domain
		return nil, fmt.Errorf("%s and %s both have this rule: choose by --domain", first, last)
	}
	return &a, nil
}

// askRedis reads the history in the Redis that the environment names, and reports whether there is one: if not, it
// sets the address of the admin port to read from.
func (s *readFlags) askRedis(ask func(*historyapi.History) error) (asked bool, err error) {
	if s.Address != "" {
		s.source = "the weir at " + s.Address
		return false, nil
	}
	settings, err := config.Read(config.Process())
	if err == nil && !settings.HistoryInRedis() {
		s.Address = config.AdminAddress()
		s.source = "the weir at " + s.Address
		if config.Process()["DATA_DIR"] != "" { // perhaps another weir's
			s.source += ", from the store of that one, whatever DATA_DIR is here"
		}
	}
	if err != nil || s.Address != "" {
		return false, err
	}
	s.settings, s.source = &settings, storeName(&settings)
	store, err := OpenRedis(&settings, slog.New(slog.DiscardHandler), true)
	if err != nil {
		return false, err
	}
	return true, errors.Join(ask(historyapi.New(store, settings.History.FlushInterval, time.Now)), store.Close())
}

// exitFor returns terminal.ExitNo if any series is broken (unreadable or inexact), else ExitNothing if nothing was found.
func exitFor(broken int, nothing bool) error {
	switch {
	case broken > 0:
		return terminal.ExitNo
	case nothing:
		return terminal.ExitNothing
	}
	return nil
}

func writeWarnings(b *strings.Builder, warnings []string, p terminal.Paint) {
	for _, warning := range warnings {
		fmt.Fprintln(b, p.Yellow(descriptors.Printable(warning)))
	}
}

// errNoSeries returns the error for a query without series. lag is how many seconds hits take to be stored, at most, 0
// if unknown; warnings are those of the answer. It cannot tell whether weirs with this Redis keep a history.
func (s *readFlags) errNoSeries(q url.Values, lag int64, warnings []string) error {
	text := "there is no history yet"
	switch {
	case len(warnings) > 0:
		return terminal.EmptyError("no history of that: " + strings.TrimSuffix(strings.Join(warnings, " "), "."))
	case q.Get("domain")+q.Get("path")+q.Get("outcome")+q.Get("value") != "":
		text = "no history of that; weir history top --from -1y lists what there is"
	case s.settings == nil:
	case !s.settings.KeepHistory:
		return terminal.EmptyError(fmt.Sprintf("%s holds no history, and HISTORY=false is set: %s", storeName(s.settings), s.settings.HistoryRemedy()))
	default:
		lag, text = int64(s.settings.History.FlushInterval.Seconds()), storeName(s.settings)+" holds no history: weirs keep one there unless HISTORY=false is set"
		if s.settings.HistoryVariable() == "" {
			text += ", those started as ratelimit only if HISTORY=true or REDIS_HISTORY_URL is"
		}
	}
	return terminal.EmptyError(text + describeLag("; ", lag))
}

// describeLag says when hits appear, after an introduction; "" if that is unknown.
func describeLag(introduction string, lag int64) string {
	if lag == 0 {
		return ""
	}
	return introduction + "hits appear within " + terminal.FormatSeconds(lag)
}

// readable returns the readable name of a series.
func readable(domain, path, value string) string {
	return descriptors.Printable(history.ReadableName(domain, path, value))
}

// describeNoHits says that a range has no hits that fit the query, and where there are some.
func describeNoHits(a *historyapi.Metadata, zone *time.Location) string {
	text := "No such hits in this range"
	if a.Until > 0 {
		stamp := func(at int64) string { return time.Unix(at, 0).In(zone).Format("2006-01-02 15:04") }
		others := "there are hits"
		if a.Since >= a.From && a.Until <= a.To {
			others = "hits of other outcomes are"
		}
		text += fmt.Sprintf("; %s from %s to %s", others, stamp(a.Since), stamp(a.Until))
	}
	return text + describeLag("; ", a.Lag) + ".\n"
}

// describeRange returns a line with the range of the answer and more, and one with the requested range if that
// differs:
//
//	2026-11-21 11:00 to 12:30 UTC (1h 30m), by hits
//	asked for: 11:10 to 12:10
//
// The zone is shown at the end, and also at the beginning if the clock changes in between.
func describeRange(a *historyapi.Metadata, zone *time.Location, more string) string {
	const full = "2006-01-02 15:04"
	short, stamp := full, func(at int64, layout string) string { return time.Unix(at, 0).In(zone).Format(layout) }
	if stamp(a.From, time.DateOnly) == stamp(a.To, time.DateOnly) {
		short = "15:04"
	}
	from := full
	if stamp(a.From, "MST") != stamp(a.To, "MST") {
		from, short = full+" MST", full
	}
	text := fmt.Sprintf("%s to %s (%s)%s\n", stamp(a.From, from), stamp(a.To, short+" MST"), terminal.FormatSeconds(a.To-a.From), more)
	if a.AskedTo > 0 {
		text += fmt.Sprintf("asked for: %s to %s\n", stamp(a.AskedFrom, short), stamp(a.AskedTo, short))
	}
	return text
}
