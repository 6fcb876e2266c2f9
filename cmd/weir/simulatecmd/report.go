package simulatecmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
)

// report is the output of --json. Times are Unix seconds.
type report struct {
	Traffic     string       `json:"traffic"`
	Requests    uint64       `json:"requests"`
	Unlimited   uint64       `json:"unlimited"` // requests that no limit applied to, with --compare none of the new files
	From        int64        `json:"from"`
	To          int64        `json:"to"`
	Interrupted bool         `json:"interrupted"` // requests after To were not simulated
	Rules       []ruleReport `json:"rules,omitempty"`
	Compared    []difference `json:"compared,omitempty"`
}

type ruleReport struct {
	Domain      string         `json:"domain"`
	Path        string         `json:"path"` // escaped, as it is stored
	Shadow      bool           `json:"shadow"`
	Limits      []string       `json:"limits"`
	Results     []*ruleResults `json:"results"` // first that of the rules as they are, then those that may differ from it
	DeniedMost  []*caller      `json:"denied_most"`
	WorstMinute minute         `json:"worst_minute"`
}

// newReport returns the report of simulations of the same traffic, for a domain and path or for all, with rules by
// domain and path. If there are differences, the simulations are of the configuration in force and of the new one, and
// the report has only these.
func newReport(traffic, domain, path string, all []*simulation, differences []difference) *report {
	first := &all[0].results
	r := &report{Traffic: traffic, Requests: first.requests, Unlimited: first.unlimited, From: first.from.Unix(), To: first.to.Unix(),
		Compared: differences}
	if differences != nil {
		r.Unlimited = all[1].results.unlimited
		for i := range r.Compared {
			r.Compared[i].Most = ranked(r.Compared[i].callers)
		}
		return r
	}
	for rule, of := range first.rules {
		if domain != "" && rule.Domain != domain || path != "" && !descriptors.SamePath(rule.Path, path) {
			continue
		}
		one := ruleReport{Domain: rule.Domain, Path: rule.Path, Shadow: rule.Shadow, DeniedMost: ranked(of.callers),
			WorstMinute: slices.MaxFunc(of.minutes, func(a, b minute) int { return cmp.Compare(a.Denied, b.Denied) })}
		for i := range rule.Limits {
			one.Limits = append(one.Limits, descriptors.DescribeLimits(rule.Limits[i])+" "+rule.Limits[i].Algorithm.String())
		}
		for _, s := range all {
			as := s.results.rules[rule]
			if as.Algorithm = s.name; as == of || differs(rule, s.store.algorithm) || as.Admitted != of.Admitted {
				one.Results = append(one.Results, as)
			}
		}
		r.Rules = append(r.Rules, one)
	}
	slices.SortFunc(r.Rules, func(a, b ruleReport) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Path, b.Path))
	})
	return r
}

// text returns the report for people: a table for each rule.
func (r *report) text(zone *time.Location) string {
	var b strings.Builder
	stamp := func(at int64, layout string) string { return time.Unix(at, 0).In(zone).Format(layout) }
	fmt.Fprintf(&b, "%s requests, %s to %s, %s\n", terminal.Thousands(r.Requests), stamp(r.From, time.DateTime), stamp(r.To, time.DateTime+" MST"),
		r.Traffic)
	if r.Interrupted {
		b.WriteString("Stopped before the end: these are the first requests of this traffic, and what came after them was not simulated.\n")
	}
	if r.Unlimited > 0 {
		fmt.Fprintf(&b, "No limit%s applied to %s of them: weir check --explain says why.\n",
			map[bool]string{true: " of the new files"}[r.Compared != nil], terminal.Thousands(r.Unlimited))
	}
	for i := range r.Rules {
		d := &r.Rules[i]
		fmt.Fprintf(&b, "\n%s %s  %s", descriptors.Printable(d.Domain), descriptors.Printable(descriptors.ReadablePath(d.Path)), strings.Join(d.Limits, ", "))
		if d.Shadow {
			b.WriteString(", in shadow mode: what is denied here passes")
		}
		b.WriteString("\n" + d.table(uint64(r.To/60-r.From/60)+1))
		if len(d.DeniedMost) > 0 {
			fmt.Fprintf(&b, "  denied most: %s\n  worst minute: %s denied at %s\n", named(d.DeniedMost), terminal.Thousands(d.WorstMinute.Denied),
				stamp(d.WorstMinute.Start, "2006-01-02 15:04"))
		}
	}
	for i := range r.Compared {
		d := &r.Compared[i]
		fmt.Fprintf(&b, "\nDenied only by %s: %s of the %s that they deny\n", d.By, terminal.Count(int(d.Hits), "hit"), terminal.Thousands(d.Denied))
		for _, who := range d.Most {
			fmt.Fprintf(&b, "  %s  %s\n", terminal.Thousands(who.Denied), descriptors.Abbreviate(who.Descriptor))
		}
	}
	return b.String()
}

// table returns a line for each simulation:
//
//	             asked  admitted  denied      in minutes  callers denied  worst window
//	as it is     1,200  900       300 (25 %)  12 (10 %)   3 of 100        10
func (d *ruleReport) table(minutes uint64) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tasked\tadmitted\tdenied\tin minutes\tcallers denied\tworst window")
	for _, s := range d.Results {
		worst := strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Worst), " ", ", "), "[]")
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d of %d\t%s\n", s.Algorithm, terminal.Thousands(s.Asked), terminal.Thousands(s.Admitted),
			share(s.Denied, s.Asked), share(uint64(s.MinutesDenied), minutes), s.CallersDenied, s.Callers, worst)
	}
	_ = table.Flush() // writes to a builder never fail
	return b.String()
}

func named(callers []*caller) string {
	texts := make([]string, len(callers))
	for i, who := range callers {
		texts[i] = fmt.Sprintf("%s %s of %s", descriptors.Abbreviate(who.Descriptor), terminal.Thousands(who.Denied), terminal.Thousands(who.Asked))
	}
	return strings.Join(texts, "; ")
}

// share formats a part of a whole: 300 (25 %).
func share(part, whole uint64) string {
	if part == 0 {
		return "0"
	}
	return fmt.Sprintf("%s (%.3g %%)", terminal.Thousands(part), 100*float64(part)/float64(whole))
}

// difference has the hits of requests that one of two configurations denies and the other does not, and the callers
// with most of them.
type difference struct {
	By     string    `json:"denied_only_by"`
	Hits   uint64    `json:"hits"`
	Denied uint64    `json:"denied"` // hits that this configuration denies, whatever the other does
	Most   []*caller `json:"most"`

	callers map[string]*caller // by the text of the request
}

// newDifferences returns the differences of the new configuration, and of the one in force.
func newDifferences() []difference {
	return []difference{{By: "the new files", callers: make(map[string]*caller)}, {By: "those in force", callers: make(map[string]*caller)}}
}

// add adds the requests of a batch, for a domain or for all, that both configurations have decided; after an error of
// one, these are fewer than the batch.
func (d *difference) add(batch []request, domain string, this, other *simulation) {
	for i := range min(len(this.over), len(other.over)) {
		r := &batch[i]
		hits := uint64(max(r.hits, 1))
		if !this.over[i] || domain != "" && r.domain != domain {
			continue
		}
		if d.Denied += hits; other.over[i] {
			continue
		}
		d.Hits += hits
		name := r.text()
		if d.callers[name] == nil {
			d.callers[name] = &caller{Descriptor: name}
		}
		d.callers[name].Denied += hits
	}
}
