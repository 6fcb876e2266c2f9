package historycmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/cmd/weir/checkcmd"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	historyapi "github.com/weirproxy/weir/server/history"
)

// Suggest prints limits that would have denied hits in a given share of the minutes of a rule's history.
type Suggest struct {
	RuleFlags
	Deny float64 `default:"0.1" placeholder:"PERCENT" help:"Which share of the minutes --yaml may deny: 0.1, or another number of percent; 0 for none."`
	YAML string  `name:"yaml" placeholder:"DIR|FILE" help:"Print the descriptor file of the rule, from there, with that limit in it."`
	JSON bool    `name:"json" help:"Print the answer as JSON."`
}

// Help returns what weir suggest --help shows below the first sentence.
func (*Suggest) Help() string {
	return `Reads a rule's hits, denied ones too, from where weir history reads them, and tells which limits by the minute would have
denied something in 1 %, 0.1 % and none of the minutes: of each value, where the history keeps values.

    weir suggest --domain shop --path path=/login --from -1y
    weir suggest --domain shop --path path=/login --from -30d --yaml limits > limits.new/shop.yaml

Minutes are kept for HISTORY_KEEP_MINUTES, a day unless it is set. Of a coarser bucket the sum and the largest minute are known;
how many of its other minutes exceed a limit is estimated. Exit code: 0, 1 if the files of --yaml have errors, 2 if it failed, or 3
if there are no hits of the rule.`
}

// suggestion has the limits for one value, or for all hits of a rule.
type suggestion struct {
	Value    string     `json:"value"`
	From     int64      `json:"from"` // the range that was read, in Unix seconds
	To       int64      `json:"to"`
	Minutes  int64      `json:"minutes"`   // minutes from the first hit to the end of the last bucket
	WithHits int64      `json:"with_hits"` // part of Minutes in buckets with hits
	Exact    int64      `json:"exact"`     // part of Minutes that is stored as minutes, or has no hits
	Peak     uint64     `json:"peak"`      // hits of the largest minute
	Limits   []proposed `json:"limits"`

	buckets []historyapi.PointAnswer // of all outcomes
}

// proposed is a limit per minute, and the number of minutes in which it would have denied hits.
type proposed struct {
	Percent float64 `json:"percent"`
	Limit   uint64  `json:"limit"`
	Minutes int64   `json:"minutes"`  // estimate
	AtLeast int64   `json:"at_least"` // lower bound, from the largest minutes of buckets
	AtMost  int64   `json:"at_most"`  // upper bound, from the sums of buckets
}

// Run reads the history, and prints suggestions or a changed file.
func (c *Suggest) Run(ctx context.Context, out terminal.Output) error {
	if !(c.Deny >= 0 && c.Deny < 100) {
		return fmt.Errorf("--deny %v is no share: from 0 to 100 percent", c.Deny)
	}
	a, err := c.Read(ctx, &out)
	if err != nil {
		return err
	}
	all := suggest(a, []float64{1, .1, 0, c.Deny}) // the last is for --yaml
	switch {
	case c.YAML != "":
		return c.printFile(out, a, all)
	case c.JSON:
		return terminal.WriteJSON(out.Out, all)
	}
	_, err = io.WriteString(out.Out, describeSuggestions(a, all, out.Zone))
	return err
}

// suggest returns the suggestions for each value of a rule, most hits first.
func suggest(a *historyapi.HistoryAnswer, percents []float64) (all []*suggestion) {
	for i := range a.Series {
		s := &a.Series[i]
		at := slices.IndexFunc(all, func(o *suggestion) bool { return o.Value == s.Value })
		if at < 0 {
			at = len(all)
			all = append(all, &suggestion{Value: s.Value, From: a.From, To: a.To})
		}
		all[at].buckets = append(all[at].buckets, s.Points...)
	}
	for _, s := range all {
		s.propose(percents)
	}
	slices.SortFunc(all, func(a, b *suggestion) int { return cmp.Or(cmp.Compare(b.Peak, a.Peak), cmp.Compare(a.Value, b.Value)) })
	return all
}

// merge adds up the buckets of all outcomes, sorted by time. Their largest minutes may be different ones, so the sum
// of these is an upper bound of the peak.
func (s *suggestion) merge() {
	slices.SortFunc(s.buckets, func(a, b historyapi.PointAnswer) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Width, b.Width))
	})
	merged := s.buckets[:0]
	for _, b := range s.buckets {
		if n := len(merged); n > 0 && merged[n-1].Start == b.Start && merged[n-1].Width == b.Width {
			b.Sum, b.Peak, merged = b.Sum+merged[n-1].Sum, b.Peak+merged[n-1].Peak, merged[:n-1]
		}
		merged = append(merged, b)
	}
	s.buckets = merged
}

// propose finds for each percentage the smallest limit that is estimated to deny hits in at most that share of the
// minutes.
func (s *suggestion) propose(percents []float64) {
	s.merge()
	for _, b := range s.buckets {
		s.Minutes = max(s.Minutes, (b.Start+b.Width-s.buckets[0].Start)/history.Minute)
		s.Peak = max(s.Peak, min(b.Peak, b.Sum))
		if b.Sum > 0 {
			s.WithHits += b.Width / history.Minute
		}
		if b.Width > history.Minute {
			s.Exact -= b.Width / history.Minute
		}
	}
	s.Exact += s.Minutes
	for _, percent := range percents {
		low, high := uint64(0), s.Peak // high denies nothing
		for low < high {
			middle := low + (high-low)/2
			if estimated, _, _ := s.over(middle); estimated <= percent/100*float64(s.Minutes) {
				high = middle
			} else {
				low = middle + 1
			}
		}
		estimated, least, most := s.over(high)
		s.Limits = append(s.Limits, proposed{percent, high, int64(math.Round(estimated)), least, most})
	}
}

// over returns the number of minutes in which the hits exceeded a limit: an estimate, a lower and an upper bound.
func (s *suggestion) over(limit uint64) (estimated float64, least, most int64) {
	for _, b := range s.buckets {
		peak := min(b.Peak, b.Sum)
		if peak <= limit {
			continue
		}
		minutes := b.Width / history.Minute
		atMost := min(minutes, int64(b.Sum/(limit+1)))
		estimated += min(max(tail(float64(minutes), float64(b.Sum), float64(peak), float64(limit)), 1), float64(atMost))
		least, most = least+1, most+atMost
	}
	return estimated, least, most
}

// tail returns how many of n minutes exceed a limit, if their hits have a Weibull distribution whose mean is sum/n, and
// whose largest of n values is the peak.
func tail(n, sum, peak, limit float64) float64 {
	mean := (sum - peak) / (n - 1)
	if n < 3 || mean <= 0 || peak <= mean {
		return 1
	}
	shape := math.Log(math.Log(n)) / math.Log(peak/mean)
	return n * math.Exp(-math.Pow(limit/mean, shape))
}

// countsValues reports whether the path of a rule shows that it has a counter for each value.
func countsValues(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(segment string) bool {
		return !strings.Contains(segment, "=") || strings.Contains(segment, "*")
	})
}

const maxSuggested = 10 // values in a table

// describeSuggestions formats the range, a table of limits for each value, and notes about their uncertainty.
func describeSuggestions(a *historyapi.HistoryAnswer, all []*suggestion, zone *time.Location) string {
	var b strings.Builder
	path := a.Series[0].Path
	fmt.Fprintf(&b, "%s, %s%s from the first hit, %s in buckets with hits, largest minute %s\n\n",
		readable(a.Series[0].Domain, path, ""), describeRange(&a.Metadata, zone, ""), terminal.Count(int(all[0].Minutes), "minute"),
		terminal.Thousands(uint64(all[0].WithHits)), terminal.Thousands(all[0].Peak))
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "would have denied something in\tlimit\tminutes\tat least\tat most\n")
	for _, s := range all[:min(len(all), maxSuggested)] {
		for _, l := range s.Limits[:3] {
			share := "no minute"
			if l.Percent > 0 {
				share = fmt.Sprintf("%v %% of the minutes", l.Percent)
			}
			line := fmt.Sprintf("%s\t%d/minute\t%s\t%s\t%s\t%s", share, l.Limit, terminal.Thousands(uint64(l.Minutes)),
				terminal.Thousands(uint64(l.AtLeast)), terminal.Thousands(uint64(l.AtMost)), descriptors.Abbreviate(descriptors.ReadablePath(s.Value)))
			fmt.Fprintln(table, strings.TrimRight(line, "\t"))
		}
	}
	_ = table.Flush() // writes to a builder never fail
	if more := len(all) - maxSuggested; more > 0 {
		fmt.Fprintf(&b, "and %d more values; --json has all\n", more)
	}
	b.WriteString("\nWhat this cannot know: what will be asked tomorrow, windows that begin within a minute, and requests that clients\n" +
		"would not have made, or made again, had they been denied.\n")
	if estimated := all[0].Minutes - all[0].Exact; estimated > 0 {
		fmt.Fprintf(&b, "%.3g %% of the minutes are known only by the sum and the largest minute of a longer bucket: how many exceed a limit is estimated.\n",
			100*float64(estimated)/float64(all[0].Minutes))
	}
	if countsValues(path) && all[0].Value == "" {
		b.WriteString("The rule counts each value by itself, and the history keeps their sum: these limits are those of all callers together.\n" +
			"With value_to_metric the history keeps values.\n")
	}
	return b.String()
}

// printFile prints the rule's file with a limit that is enough for every value in the history.
func (c *Suggest) printFile(out terminal.Output, a *historyapi.HistoryAnswer, all []*suggestion) error {
	domain, path := a.Series[0].Domain, a.Series[0].Path
	config, err := checkcmd.Load(c.YAML, out)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(config.Rules(), func(r *descriptors.Rule) bool { return r.Domain == domain && r.Path == path })
	if at < 0 {
		return fmt.Errorf("%s has no rule %s", c.YAML, readable(domain, path, ""))
	}
	var by *suggestion
	for _, s := range all {
		if s.Value != history.OtherValue && (s.Value != "" || !countsValues(path)) && (by == nil || s.Limits[3].Limit > by.Limits[3].Limit) {
			by = s
		}
	}
	if by == nil {
		return fmt.Errorf("rule %s counts each value by itself, and the history keeps only their sum: no limit for one follows; "+
			"with value_to_metric: true it keeps values", readable(domain, path, ""))
	}
	name, line, _ := strings.Cut(config.Rules()[at].Where, ":")
	file := c.YAML
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		file = filepath.Join(file, name)
	}
	text, err := os.ReadFile(file)
	if err == nil {
		l := by.Limits[3]
		text, err = changeLimit(text, line, l.Limit, fmt.Sprintf("%d/minute would have denied something in %s of %s, %s in buckets with hits, %s",
			l.Limit, terminal.Thousands(uint64(l.Minutes)), terminal.Count(int(by.Minutes), "minute"), terminal.Thousands(uint64(by.WithHits)),
			strings.SplitN(describeRange(&a.Metadata, out.Zone, ""), "\n", 2)[0]))
	}
	if err != nil {
		return fmt.Errorf("%s:%s: %w", file, line, err)
	}
	_, err = out.Out.Write(text)
	return err
}

const comment = "# weir suggest: "

// changeLimit returns a descriptor file in which the first limit per minute of the descriptor on a line is changed. It
// adds a comment with the reason above the limit, which replaces the comment of an earlier change.
func changeLimit(text []byte, line string, limit uint64, why string) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	var requests *yaml.Node
	var find func(n *yaml.Node, within bool)
	find = func(n *yaml.Node, within bool) {
		unit, number := valueOf(n, "unit"), valueOf(n, "requests_per_unit")
		if within && requests == nil && unit != nil && strings.EqualFold(unit.Value, "minute") && number != nil && valueOf(n, "unit_multiplier") == nil {
			requests = number
		}
		for i, child := range n.Content {
			below := n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Value == "descriptors"
			find(child, (within || n.Kind == yaml.MappingNode && strconv.Itoa(n.Line) == line && valueOf(n, "key") != nil) && !below)
		}
	}
	find(&root, false)
	if requests == nil {
		return nil, fmt.Errorf("the rule has no limit with unit: minute, which could become %d/minute", limit)
	}
	number := strconv.FormatUint(limit, 10)
	if number == requests.Value {
		return text, nil
	}
	lines, at := strings.SplitAfter(string(text), "\n"), requests.Line-1
	before, after := lines[at][:requests.Column-1], lines[at][requests.Column-1:]
	indent := before[:len(before)-len(strings.TrimLeft(before, " "))]
	lines[at] = indent + comment + why + "\n" + before + number + strings.TrimPrefix(after, requests.Value)
	if at > 0 && strings.HasPrefix(strings.TrimLeft(lines[at-1], " "), comment) {
		lines[at-1] = ""
	}
	return []byte(strings.Join(lines, "")), nil
}

// valueOf returns the value of a key in a mapping, nil for none.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}
