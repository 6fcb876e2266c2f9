package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/connlimit"
	historyapi "github.com/weirproxy/weir/server/history"
)

// TopAnswer lists the heaviest keys of this process in the last minute, or the heaviest values of all weirs in a range
// of the history. Hits are lower bounds.
type TopAnswer struct {
	Domain string `json:"domain"`
	Path   string `json:"path"`   // the stored form; "" for all
	Source string `json:"source"` // process or history
	By     string `json:"by"`     // hits, or an outcome
	From   int64  `json:"from"`   // Unix seconds
	To     int64  `json:"to"`
	Found  int    `json:"found"`
	// Missing is by how much the hits of a row may be too low, as By counts them; a key that is not listed had at most
	// as many. It is nil for the history, which does not keep it.
	Missing  *uint64  `json:"missing,omitempty"`
	Warnings []string `json:"warnings"`
	Top      []TopRow `json:"top"` // the most first
}

// TopRow is a key or, of the history, a value of a rule.
type TopRow struct {
	Descriptor string `json:"descriptor"`       // of the history: the entries whose values the rule keeps
	Shared     bool   `json:"shared,omitempty"` // the descriptor has a pattern that stands for all matching values
	Path       string `json:"path"`
	Limit      string `json:"limit,omitempty"` // 10/minute, the strictest; like the next two, of the process alone
	Algorithm  string `json:"algorithm,omitempty"`
	Burst      uint64 `json:"burst,omitempty"` // of a token_bucket
	historyapi.RankedHits
}

// topHandler lists the heaviest keys. Only one request at a time reads the history.
func (c *Counters) topHandler(p *Parts) http.HandlerFunc {
	semaphore := make(connlimit.Semaphore, 1)
	return serveJSON(historyError, func(_ http.ResponseWriter, r *http.Request) (any, error) {
		if err := p.Access.mayRead(r); err != nil {
			return nil, err
		}
		parameters, err := parametersOnly(r, "domain", "path", "n", "by", "from", "to", "tz")
		if err != nil {
			return nil, err
		}
		config := c.Rules.Config()
		if config == nil {
			return nil, errUnconfigured
		}
		if names := config.DomainNames(); parameters.Get("domain") == "" {
			if len(names) != 1 {
				return nil, refuse(http.StatusBadRequest, "domain is missing: name one of %s.", descriptors.Abbreviate(names...))
			}
			parameters["domain"] = names
		}
		n, err := parameters.Number("n", historyapi.DefaultRows, historyapi.MaxRows)
		if err != nil {
			return nil, err
		}
		if parameters.Get("from") == "" && parameters.Get("to") == "" {
			return c.topOfProcess(config, parameters, n)
		}
		switch {
		case p.History == nil:
			return nil, p.errNoHistory()
		case !semaphore.Acquire(r.Context(), queueTimeout):
			return nil, refuse(http.StatusServiceUnavailable, "Another query of the history is running.")
		}
		defer semaphore.Release()
		ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
		defer cancel()
		return topOfHistory(ctx, p.History, parameters, n)
	})
}

// topOfProcess answers from the last minute of this process.
func (c *Counters) topOfProcess(config *descriptors.Config, parameters historyapi.Parameters, n int) (a TopAnswer, err error) {
	a = TopAnswer{Domain: parameters.Get("domain"), Source: "process", Warnings: []string{}, Top: []TopRow{}}
	if a.By, err = parameters.By(); err != nil {
		return a, err
	}
	if a.Path, err = pathOf(config, a.Domain, parameters.Get("path")); err != nil {
		return a, err
	}
	now := c.Now()
	top := c.Recorder.TopKeys(now)
	a.From, a.To, a.Missing = max(top.Since.Unix(), c.Since.Unix()), now.Unix()+1, &top.Missing
	if a.By == "over" || a.By == "shadow" {
		a.Missing = &top.MissingOverLimit
	}
	for i := range top.Keys {
		key := &top.Keys[i]
		row := TopRow{Descriptor: key.Descriptor, Shared: key.Shared, Path: key.Path, RankedHits: historyapi.RankedHits{
			Hits: key.Hits(), Within: key.Within, Over: key.Over, Degraded: key.Degraded, Near: key.Near, Shadow: key.Shadow}}
		if key.Limit.Window > 0 {
			row.Limit, row.Algorithm, row.Burst = key.Limit.String(), key.Limit.Algorithm.String(), key.Limit.Burst
		}
		if *row.By(a.By) > 0 && key.Domain == a.Domain && (a.Path == "" || key.Path == a.Path) {
			a.Top = append(a.Top, row)
		}
	}
	slices.SortFunc(a.Top, func(x, y TopRow) int {
		return cmp.Or(cmp.Compare(*y.By(a.By), *x.By(a.By)), cmp.Compare(y.Hits, x.Hits), strings.Compare(x.Descriptor, y.Descriptor))
	})
	a.Found = len(a.Top)
	a.Top = a.Top[:min(n, len(a.Top))]
	return a, nil
}

// pathOf returns the stored form of a requested path, "" for all. Its error says why nothing is counted there.
func pathOf(config *descriptors.Config, domain, asked string) (path string, err error) {
	r, err := ruleAt(config, domain, asked)
	switch {
	case r == nil:
		return "", err
	case len(r.Limits) == 0:
		return "", refuse(http.StatusNotFound, "Rule %s of domain %s is unlimited, so its keys are not counted.",
			descriptors.Abbreviate(descriptors.ReadablePath(r.Path)), descriptors.Abbreviate(domain))
	}
	return r.Path, nil
}

// ruleAt returns the rule with a path, in a domain or, if that is "", in any; nil if the path is "". Its error says
// that no file configures the domain, or no rule has the path.
func ruleAt(config *descriptors.Config, domain, path string) (*descriptors.Rule, error) {
	found := config.Match(domain, nil).Kind
	if domain != "" && (found == descriptors.UnknownDomain || found == descriptors.BrokenDomain) {
		return nil, refuse(http.StatusNotFound, "%s", config.Explain(domain, nil).Reason)
	}
	if path == "" {
		return nil, nil
	}
	for _, r := range config.Rules() {
		if (domain == "" || r.Domain == domain) && descriptors.SamePath(r.Path, path) {
			return r, nil
		}
	}
	where := ""
	if domain != "" {
		where = " of domain " + descriptors.Abbreviate(domain)
	}
	return nil, refuse(http.StatusNotFound, "No rule%s has the path %s; weir check DIR lists the rules.", where, descriptors.Abbreviate(path))
}

// topOfHistory answers from the history of all weirs.
func topOfHistory(ctx context.Context, h *historyapi.History, parameters historyapi.Parameters, n int) (a TopAnswer, err error) {
	parameters["n"] = []string{fmt.Sprint(historyapi.MaxRows)} // some of its rows are of rules that keep no values
	top, err := h.Top(ctx, parameters)
	if err != nil {
		return a, err
	}
	a = TopAnswer{Domain: parameters.Get("domain"), Path: parameters.Get("path"), Source: "history", By: top.By, From: top.From, To: top.To,
		Warnings: top.Warnings, Top: []TopRow{}}
	for _, r := range top.Top {
		if r.Value == "" {
			continue
		}
		if a.Found++; len(a.Top) < n {
			a.Top = append(a.Top, TopRow{Descriptor: descriptors.ReadablePath(r.Value), Path: r.Path, RankedHits: r.RankedHits})
		}
	}
	if top.Hit > 0 && top.HitValues == 0 {
		a.Warnings = append(a.Warnings, "No rule that was hit keeps values in the history: give it detailed_metric or value_to_metric.")
	}
	return a, nil
}
