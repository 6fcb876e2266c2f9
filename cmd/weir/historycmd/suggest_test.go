package historycmd

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/demo"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	historyapi "github.com/weirproxy/weir/server/history"
)

// demoYear is the series of the demo's year by their paths, as finely as a store keeps them; allMinutes has every
// minute.
var demoYear, allMinutes = sync.OnceValue(func() map[string]*historyapi.HistoryAnswer { return yearOf(history.DefaultRetention()) }),
	sync.OnceValue(func() map[string]*historyapi.HistoryAnswer {
		keep := history.DefaultRetention()
		for i := range keep.Ages {
			keep.Ages[i] = 10 * 365 * 24 * time.Hour
		}
		return yearOf(keep)
	})

func yearOf(keep history.Retention) map[string]*historyapi.HistoryAnswer {
	until := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	by := make(map[history.ID]*historyapi.SeriesAnswer)
	_ = demo.Buckets(until.AddDate(-1, 0, 0), until, keep, func(id history.ID, p history.Point) error {
		if !id.Outcome.IsPart() {
			if by[id] == nil {
				by[id] = &historyapi.SeriesAnswer{SeriesName: historyapi.SeriesName{Domain: id.Domain, Path: id.Path, Value: id.Value}}
			}
			by[id].Points = append(by[id].Points, historyapi.PointAnswer{Start: p.Start, Width: p.Tier.Width(), Sum: p.Sum, Peak: p.Peak})
		}
		return nil
	})
	all := make(map[string]*historyapi.HistoryAnswer)
	for id, s := range by {
		if all[id.Path] == nil {
			all[id.Path] = &historyapi.HistoryAnswer{Metadata: historyapi.Metadata{From: until.AddDate(-1, 0, 0).Unix(), To: until.Unix()}}
		}
		all[id.Path].Series = append(all[id.Path].Series, *s)
	}
	return all
}

// Of days the history has a sum and the largest minute. What is estimated from these is held against all minutes.
func TestSuggestedLimitsDenyTheStatedMinutes(t *testing.T) {
	for _, path := range []string{"path=%2Flogin", "route=search", "recipient", "tenant"} {
		kept := suggest(demoYear()[path], []float64{1, .1, 0})
		for i, exact := range suggest(allMinutes()[path], []float64{1, .1, 0}) {
			s := kept[i]
			if s.Value != exact.Value || s.Peak != exact.Peak || s.Limits[2].Limit != exact.Limits[2].Limit {
				t.Errorf("%s: %+v and, of all minutes, %+v; want the same largest minute", path, s, exact)
			}
			for _, l := range s.Limits {
				denied, least, most := exact.over(l.Limit)
				if share := 100 * denied / float64(exact.Minutes); share > 2*l.Percent+.01 || denied < float64(l.AtLeast) || denied > float64(l.AtMost) ||
					int64(denied) != least || least != most {
					t.Errorf("%s %s: of %v %% it suggests %+v, which denies %v minutes, %.3g %%; want no more than twice the share, within the bounds",
						path, s.Value, l.Percent, l, denied, share)
				}
			}
			for j, l := range s.Limits[:2] { // a limit that denies nothing is no suggestion
				if best := exact.Limits[j].Limit; float64(l.Limit) > math.Max(4*float64(best), float64(best)+5) {
					t.Errorf("%s %s: of %v %% it suggests %d, and %d would do", path, s.Value, l.Percent, l.Limit, best)
				}
			}
		}
	}
}

func TestSuggestChangesOnlyTheFile(t *testing.T) {
	const rules = `# The shop.
domain: shop
descriptors:
  - key: user # everybody
    rate_limits:
      - {name: user-hour, requests_per_unit: 100, unit: hour}
      - {name: user-minute, requests_per_unit: 100, unit: MINUTE}   # as long as nobody complains
    descriptors:
      - {key: path, value: /pay, rate_limit: {requests_per_unit: 1000, unit: minute}}
  - key: path
    value: /login
    rate_limit:
      unit: minute
      requests_per_unit: 1000
  - {key: day, value: a, rate_limit: {requests_per_unit: 1000, unit: day}}
`
	for line, want := range map[string]string{
		"4":  strings.Replace(rules, "      - {name: user-minute, requests_per_unit: 100", "      # weir suggest: all.\n      - {name: user-minute, requests_per_unit: 7", 1),
		"9":  strings.Replace(rules, "      - {key: path, value: /pay, rate_limit: {requests_per_unit: 1000", "      # weir suggest: all.\n      - {key: path, value: /pay, rate_limit: {requests_per_unit: 7", 1),
		"10": strings.Replace(rules, "      requests_per_unit: 1000\n", "      # weir suggest: all.\n      requests_per_unit: 7\n", 1),
		"15": "",
	} {
		got, err := changeLimit([]byte(rules), line, 7, "all.")
		if string(got) != want || (err == nil) == (want == "") {
			t.Errorf("the rule on line %s: %v\n%s\nwant\n%s", line, err, got, want)
		}
	}
	const changed = "    # weir suggest: all.\n    rate_limit: {unit: minute, requests_per_unit: 7}\n"
	for again, want := range map[uint64]string{7: changed, 8: strings.NewReplacer("all", "more", "7", "8").Replace(changed)} {
		if got, err := changeLimit([]byte("  - key: a\n"+changed), "1", again, "more."); err != nil || string(got) != "  - key: a\n"+want {
			t.Errorf("again with %d: %s, %v; want one comment, and that of the last change", again, got, err)
		}
	}
}

// suggestion of the port, for a rule of shop.yaml.
func runSuggest(t *testing.T, rules string, c Suggest) (string, error) {
	t.Helper()
	if rules != "" {
		c.YAML = filepath.Join(t.TempDir(), "limits")
		if err := os.Mkdir(c.YAML, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(c.YAML, "rules.yaml"), []byte(rules), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c.Address, c.Timeout = someHistory(t), time.Minute
	var out bytes.Buffer
	err := c.Run(context.Background(), terminal.Output{Out: &out, Err: io.Discard, Zone: time.UTC})
	return out.String(), err
}

func TestSuggestNamesItsUncertainty(t *testing.T) {
	pay := RuleFlags{readFlags: readFlags{Path: "user/path=/pay"}, rangeFlags: rangeFlags{From: "2026-11-19", To: "2026-11-21"}}
	text, err := runSuggest(t, "", Suggest{RuleFlags: pay})
	for _, want := range []string{"shop user/path=/pay, 2026-11-19 00:00 to 2026-11-21 00:00 UTC (2d)\n", " in buckets with hits, largest minute ", "would have denied something in  limit", "\n1 % of the minutes", "What this cannot know: ", "the sum and the largest minute of a longer bucket",
		"The rule counts each value by itself, and the history keeps their sum"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%s, %v; want %q", text, err, want)
		}
	}
	const users = "domain: shop\ndescriptors: [{key: user, descriptors: [{key: path, value: /pay, rate_limit: {requests_per_unit: 5, unit: minute}}]}]\n"
	if text, err := runSuggest(t, users, Suggest{RuleFlags: pay}); err == nil || !strings.Contains(err.Error(), "keeps only their sum") {
		t.Errorf("%s, %v; want no limit for one user out of the sum of all", text, err)
	}
	from := RuleFlags{readFlags: readFlags{Path: "from"}, rangeFlags: rangeFlags{From: "2026-10-01", To: "2026-11-21"}}
	const mail = "domain: mail # of all\ndescriptors: [{key: from, value_to_metric: true, rate_limit: {requests_per_unit: 5, unit: minute}}]\n"
	if text, err := runSuggest(t, mail, Suggest{RuleFlags: from}); err != nil || !strings.HasSuffix(text, strings.Replace(mail[strings.Index(mail, "\n"):], "unit: 5,", "unit: 12,", 1)) ||
		!strings.Contains(text, "\n# weir suggest: 12/minute would have denied something in 0 of ") || !strings.Contains(text, " in buckets with hits, 2026-10-01 00:00 to 2026-11-21 ") {
		t.Errorf("%s, %v; want the limit that bob would have got along with", text, err)
	}
	if _, err := runSuggest(t, users, Suggest{RuleFlags: from}); err == nil || !strings.Contains(err.Error(), "has no rule mail from") {
		t.Errorf("%v; want to be told that these files lack the rule", err)
	}
}

// What OPERATION.md shows of the demo's year is what is suggested of it.
func TestDocumentShowsTheSuggestion(t *testing.T) {
	text, err := os.ReadFile("../OPERATION.md")
	if err != nil {
		t.Fatal(err)
	}
	const path = "path=%2Flogin"
	a := demoYear()[path]
	want := describeSuggestions(a, suggest(a, []float64{1, .1, 0, .1}), time.UTC)
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); !strings.Contains(string(text), line) {
			t.Errorf("OPERATION.md lacks %q of\n%s", line, want)
		}
	}
}
