// Package simulatecmd has the command weir simulate, which shows what limits would do to traffic. The limiter of weir
// serve decides the requests, over a memory store, on a clock that the traffic sets.
package simulatecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/cmd/weir/callcmd"
	"github.com/weirproxy/weir/cmd/weir/checkcmd"
	"github.com/weirproxy/weir/cmd/weir/historycmd"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
)

const maxRequests, maxCallers = 1e9, 1e6 // half an hour at best, and some hundred bytes each

// Command simulates limits.
type Command struct {
	Dirs    []string `arg:"" name:"dir" placeholder:"DIR" help:"Descriptor files, as weir check takes them; with --compare those in force, then the new ones."`
	Compare bool     `help:"Tell who would be denied by the second files and not by the first, and the reverse, by hits. Shadow mode denies nobody."`

	CSV         string `name:"csv" placeholder:"FILE" help:"Traffic: rows of time (RFC 3339 or Unix seconds), descriptor and, if you like, hits and domain; - is standard input."`
	EnvoyLog    string `placeholder:"FILE" help:"Traffic: Envoy's access log as JSON, an object with start_time a line; with --map."`
	Map         string `placeholder:"K={FIELD}" help:"What Envoy asks for a line of the log: 'user={x_user},path={path|path} + remote_address={peer|host}'; |path cuts off the query, |host the port."`
	Pattern     string `enum:"poisson,bursts,boundary,day,one-of-many," default:"" placeholder:"NAME" help:"Traffic that is made up: poisson, bursts (as many at once as fit), boundary (such a burst before a window of the clock ends, and one after), day (little at midnight, most at noon) or one-of-many (one caller asks 20 times as often)."`
	FromHistory bool   `help:"Traffic: the hits of the rule of --path in the history. What it does not know is made up: moments within a minute, minutes of what was downsampled, and callers."`

	Descriptor string        `placeholder:"K=V,K=V" help:"What a --pattern asks; # stands for a caller's number."`
	Callers    int           `default:"1" placeholder:"N" help:"How many callers a --pattern has, or --from-history for each value that the history keeps."`
	Rate       string        `placeholder:"10/minute" help:"Average rate of each caller of a --pattern other than boundary; by default what the first limit admits."`
	For        time.Duration `placeholder:"1h" help:"How long a --pattern goes on; by default 1h (24h for the pattern day), or 10 windows if that is longer."`
	Seed       uint64        `default:"1" help:"Another number makes up other traffic."`

	historycmd.RuleFlags
	Others bool   `negatable:"" default:"true" help:"Simulate each other algorithm as well."`
	JSON   bool   `name:"json" help:"Print one JSON document."`
	Plot   string `placeholder:"FILE.svg" help:"Draw the rule that denied most, or that of --path, over time."`
	terminal.ProgressFlag
}

// Help returns what weir simulate --help shows below the first sentence.
func (*Command) Help() string {
	return `Asks the limiter of weir serve, on a simulated clock, what it would do to traffic, and shows by rule what it admits and
denies, whom, and when; beside it each other algorithm. A worst window is the most that one caller was admitted in any.

    weir simulate limits --pattern boundary --descriptor user=ann
    weir simulate limits --pattern one-of-many --descriptor 'user=u#' --callers 100 --for 2h
    weir simulate limits --csv requests.csv --plot denied.svg
    weir simulate limits --envoy-log access.json --map 'user={x_user},path={path|path}'
    weir simulate limits --from-history --path route=search --from -30d
    weir simulate --compare limits new-limits --csv requests.csv

Refused requests are not asked again, and no store is away. Ctrl-C shows what was simulated until then. Exit code: 0, 1 if
the files have errors, 2 for another error or after Ctrl-C, 3 if the history has no hits of the rule.`
}

// Run simulates and reports.
func (c *Command) Run(ctx context.Context, out terminal.Output) error {
	if want := map[bool]int{false: 1, true: 2}[c.Compare]; len(c.Dirs) != want {
		return errors.New("name one directory of descriptor files or, with --compare, that of the files in force and that of the new ones")
	}
	if c.Compare && (c.Plot != "" || c.Path != "" && !c.FromHistory) {
		return errors.New("--compare tells of whole requests, not of a rule: leave out --plot and --path, or simulate each directory")
	}
	if err := cmp.Or(c.checkTraffic(), out.SetZone(c.TZ)); err != nil {
		return err
	}
	var all []*simulation
	for _, dir := range c.Dirs {
		config, err := checkcmd.Load(dir, out)
		if err != nil {
			return err
		}
		all = append(all, newSimulation("as it is", config, 0))
	}
	config := all[len(all)-1].limiter.Config()
	for _, a := range descriptors.Algorithms() {
		if c.Others && !c.Compare && changes(config, a) {
			all = append(all, newSimulation(a.String(), config, a))
		}
	}
	source, err := c.source(ctx, config, &out)
	if err != nil {
		return err
	}
	var differences []difference
	if c.Compare {
		differences = newDifferences()
	}
	progress, stop := c.Start(out.Err, "requests")
	progress.Total.Store(source.total)
	err = run(ctx, source.traffic, func(batch []request) {
		if progress.Done.Add(int64(len(batch))); c.Compare {
			differences[0].add(batch, c.Domain, all[1], all[0])
			differences[1].add(batch, c.Domain, all[0], all[1])
		}
	}, all...)
	interrupted := errors.Is(err, context.Canceled)
	if interrupted {
		err = nil
	} else {
		progress.Total.Store(progress.Done.Load()) // how many a pattern has is not known before
	}
	stop()
	for _, s := range all {
		err = errors.Join(err, s.store.Close())
	}
	if err != nil {
		return err
	}
	if all[0].results.requests == 0 {
		return errors.New("this traffic has no request")
	}
	if !slices.ContainsFunc(all, func(s *simulation) bool { return s.results.unlimited < s.results.requests }) {
		return fmt.Errorf("no limit applied to any request of this traffic: weir check %s --explain with a descriptor of it says why", c.Dirs[0])
	}
	r := newReport(source.about, c.Domain, c.Path, all, differences)
	r.Interrupted = interrupted
	if !c.Compare && c.Path+c.Domain != "" && len(r.Rules) == 0 {
		return fmt.Errorf("no request of this traffic got a rule of --path or --domain: weir check %s lists the rules", c.Dirs[0])
	}
	if c.Plot != "" {
		if err := r.plot(c.Plot); err != nil {
			return err
		}
	}
	if c.JSON {
		err = terminal.WriteJSON(out.Out, r)
	} else {
		_, err = io.WriteString(out.Out, r.text(out.Zone))
	}
	if r.Interrupted {
		err = cmp.Or(err, errors.New("stopped before the end: the report is of a part of the traffic"))
	}
	return err
}

// source is traffic, an estimate of the number of its requests, and a description for people.
type source struct {
	traffic traffic
	total   int64
	about   string
}

// source returns the traffic that the flags select.
func (c *Command) source(ctx context.Context, config *descriptors.Config, out *terminal.Output) (*source, error) {
	random := rand.New(rand.NewPCG(c.Seed, 0))
	switch {
	case c.FromHistory:
		p, err := readPast(ctx, &c.RuleFlags, out, c.Callers, random)
		if err != nil {
			return nil, err
		}
		return &source{p.traffic, p.hits, "made of the history.\nSums, and the largest minute of each outcome and bucket, are true. Moments within a minute, " +
			"minutes within\ncoarser buckets, and callers whom the history does not keep are made up. Of coarser buckets all minutes but the\n" +
			"largest are alike: how many exceed a limit, weir suggest estimates. A rolling window, as of sliding_window,\n" +
			"may hold more hits than the largest minute of the clock: it denies some that fixed_window admits."}, nil
	case c.Pattern != "":
		p, err := c.pattern(config, random)
		if err != nil {
			return nil, err
		}
		return &source{p.traffic, int64(p.requests()), fmt.Sprintf("made up: %s, %s", c.Pattern, terminal.Count(c.Callers, "caller"))}, nil
	}
	domain, err := c.domain(config)
	if c.CSV != "" && c.Domain == "" { // its rows may name theirs
		err = nil
	}
	if err != nil {
		return nil, err
	}
	f := &file{name: cmp.Or(c.CSV, c.EnvoyLog), domain: domain, domains: config.DomainNames(), mapping: c.Map}
	progress, stop := c.Start(out.Err, "bytes read")
	err = f.read(ctx, out.In, progress)
	stop()
	about := "of " + descriptors.Printable(f.name)
	if f.left > 0 {
		about += fmt.Sprintf(", without %s that no descriptor of --map fits", terminal.Count(f.left, "line"))
	}
	return &source{f.traffic, int64(len(f.all)), about}, err
}

// checkTraffic returns an error unless one traffic is chosen and each flag is for it.
func (c *Command) checkTraffic() error {
	var chosen []string
	for _, t := range [...]struct {
		flag  string
		given bool
	}{{"--csv", c.CSV != ""}, {"--envoy-log", c.EnvoyLog != ""}, {"--pattern", c.Pattern != ""}, {"--from-history", c.FromHistory}} {
		if t.given {
			chosen = append(chosen, t.flag)
		}
	}
	switch {
	case len(chosen) != 1:
		return errors.New("choose the traffic by one of --csv, --envoy-log, --pattern and --from-history")
	case c.EnvoyLog != "" && c.Map == "":
		return errors.New("--map says what Envoy asks for a line of --envoy-log: give both")
	case c.Callers < 1 || c.Callers > maxCallers:
		return fmt.Errorf("--callers must be from 1 to %s", terminal.Thousands(maxCallers))
	case c.Pattern == "one-of-many" && c.Callers == 1:
		return errors.New("--pattern one-of-many needs --callers, of which one asks more often")
	case c.Pattern == "boundary" && c.Rate != "":
		return errors.New("--rate is not for --pattern boundary, whose bursts are as large as the limit, but for poisson, bursts, day and one-of-many")
	}
	for _, f := range [...]struct {
		flags string
		given bool
		of    []string
	}{
		{"--map", c.Map != "", []string{"--envoy-log"}},
		{"--descriptor", c.Descriptor != "", []string{"--pattern"}},
		{"--rate", c.Rate != "", []string{"--pattern"}},
		{"--for", c.For != 0, []string{"--pattern"}},
		{"--callers", c.Callers > 1, []string{"--pattern", "--from-history"}},
		{"--seed", c.Seed > 1, []string{"--pattern", "--from-history"}},
		{"--from, --to or --admin", c.From+c.To != "" || c.Address != "", []string{"--from-history"}},
	} {
		if f.given && !slices.Contains(f.of, chosen[0]) {
			return fmt.Errorf("%s is not for %s, but for %s", f.flags, chosen[0], strings.Join(f.of, " and "))
		}
	}
	return nil
}

// domain returns the domain of requests without a domain.
func (c *Command) domain(config *descriptors.Config) (string, error) {
	names := config.DomainNames()
	if c.Domain != "" && !slices.Contains(names, c.Domain) {
		return "", fmt.Errorf("--domain: %s is not configured, but %s", descriptors.Printable(c.Domain), descriptors.Abbreviate(names...))
	}
	if c.Domain == "" && len(names) != 1 {
		return "", fmt.Errorf("--domain is missing: one of %s", descriptors.Abbreviate(names...))
	}
	return cmp.Or(c.Domain, names[0]), nil
}

// pattern returns the pattern of the flags. Its bursts and rate fit the limit of its first caller.
func (c *Command) pattern(config *descriptors.Config, random *rand.Rand) (*pattern, error) {
	domain, err := c.domain(config)
	if err != nil {
		return nil, err
	}
	if c.Descriptor == "" {
		return nil, errors.New("--descriptor is missing: what the callers of the pattern ask, such as user=u#")
	}
	p := &pattern{kind: c.Pattern, domain: domain, random: random}
	if p.callers, err = newCallers(c.Descriptor, c.Callers); err != nil {
		return nil, fmt.Errorf("--descriptor: %w", err)
	}
	rule := config.Match(domain, p.callers[0][0]).Rule
	if rule == nil || rule.Unlimited {
		return nil, fmt.Errorf("no limit of domain %s applies to %s: weir check %s --domain %[1]s --explain '%[2]s' says why",
			domain, p.callers[0][0], c.Dirs[0])
	}
	l := rule.Limits[0]
	p.window, p.burst = l.Window, int(l.Capacity())
	if c.Rate != "" {
		if l, err = callcmd.ParseLimit(c.Rate); err != nil {
			return nil, fmt.Errorf("--rate: %w", err)
		}
	}
	if p.rate = float64(l.Requests) / l.Window.Seconds(); c.Pattern == "boundary" {
		p.rate = float64(p.burst) / p.window.Seconds() // one burst a window
	} else if p.rate == 0 {
		return nil, errors.New("--rate must be above 0, or left out where the limit is")
	}
	p.length = time.Hour
	if c.Pattern == "day" {
		p.length = 24 * time.Hour
	}
	p.length = cmp.Or(c.For, max(p.length, 10*p.window))
	if n := p.requests(); n > maxRequests {
		return nil, fmt.Errorf("%s has %s requests, and at most %s are simulated: --for %s is as long as may be", c.Pattern,
			terminal.Thousands(uint64(n)), terminal.Thousands(maxRequests), time.Duration(float64(p.length)*maxRequests/n).Truncate(time.Second))
	}
	return p, nil
}
