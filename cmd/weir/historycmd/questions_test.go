package historycmd

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/demo"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/backend/history/transfer"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/server/curves"
)

// madeUp is a history in memory that holds what weir history demo makes up until noon, of paying and of tenants. Count
// returns how many hits a series has in the stored buckets that a range meets.
func madeUp(t *testing.T) (store history.Store, count func(history.ID, history.Range) uint64) {
	t.Helper()
	keep := history.DefaultKeep()
	all := make(map[history.ID][]history.Point)
	err := demo.Buckets(historyNoon, 400, keep, func(id history.ID, p history.Point) error {
		if id.Path == "user/path=%2Fpay" || id.Path == "tenant" { // the others take long
			all[id] = append(all[id], p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	keep.MaxPoints = math.MaxInt32
	clock := func() time.Time { return historyNoon }
	file, err := filehistory.InMemory(filehistory.Config{Keep: keep, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	l := transfer.NewLoader(t.Context(), transfer.Target{Store: file, Lanes: 1, Now: clock}, "demo")
	for id, points := range all {
		for _, p := range points {
			if err := l.Add(transfer.RowOf(id, p)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := l.Close(nil); err != nil {
		t.Fatal(err)
	}
	return file, func(id history.ID, in history.Range) (sum uint64) {
		for _, p := range all[id] {
			if p.Start < in.To && p.End() > in.From {
				sum += p.Sum
			}
		}
		return sum
	}
}

// The questions that an operator asks, of a year that was made up.
func TestTheQuestionsOfAnOperatorAreAnswered(t *testing.T) {
	t.Parallel()
	store, count := madeUp(t)
	port := historyPort(t, store)
	between := func(o history.Outcome, domain, path, value, from, to string) string {
		in := history.Range{To: historyNoon.Unix() + 1}
		for at, text := range map[*int64]string{&in.From: from, &in.To: to} {
			if text != "" {
				*at, _ = history.ParseMoment(text, historyNoon, time.UTC)
			}
		}
		return terminal.Thousands(count(history.ID{Domain: domain, Path: path, Value: value, Outcome: o}, in))
	}
	const pay = "user/path=%2Fpay"
	for _, c := range []struct {
		question string
		args     []string
		want     []string // of the output, or of the error
	}{
		{"who was throttled last week?", []string{"top", "--from", "-7d", "--by", "over"},
			[]string{between(history.Over, "mail", "tenant", "tenant=acme", "-7d", ""), "████████████████████  mail tenant value tenant=acme\n"}},
		{"how much did /pay get a year ago? As one begins to ask it", []string{"show", "--path", "/pay", "--from", "2025-11-15", "--to", "2025-11-16"},
			[]string{"no rule has the path /pay; these hold it: user/path=/pay"}},
		{"how much did /pay get a year ago?", []string{"show", "--path", "user/path=/pay", "--from", "2025-11-15", "--to", "2025-11-16"},
			[]string{"2025-11-15 00:00 to 2025-11-16 00:00 UTC (1d)\n", "user/path=/pay  within\n",
				"total " + between(history.Within, "shop", pay, "", "2025-11-15", "2025-11-16") + "   lifetime"}},
		{"when was the attack on it?", []string{"show", "--path", pay, "--outcome", "over", "--from", "-60d", "--step", "1d"},
			[]string{"total " + between(history.Over, "shop", pay, "", "-60d", "") + "   lifetime", "in the 1d from 09 Nov 00:00"}},
		{"what was there five years ago?", []string{"top", "--from", "2021-01-01", "--to", "2021-02-01"},
			[]string{"No hits in this range. The first that are stored are of 2025-10-18 00:00, the last of 2026-11-21 11:"}},
		{"all of it", []string{"top", "--from", "2020-01-01"}, []string{"The first hits in this range are of 2025-10-18 00:00."}},
		{"how much had acme?", []string{"show", "--path", "tenant", "--value", "acme"},
			[]string{"the value acme is not kept; these are: tenant=acme, tenant=globex, tenant=initech"}},
		{"is it all there?", []string{"verify"}, []string{"each holds exactly what it ever counted"}},
	} {
		got, err := runHistory(t, append(c.args, "--admin", port)...)
		if err != nil {
			got += err.Error()
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s weir history %s prints\n%s\nwant %q in it", c.question, strings.Join(c.args, " "), got, want)
			}
		}
	}
}

func TestTimesAreOfTheZoneThatTheyAreShownIn(t *testing.T) {
	t.Parallel()
	port := historyPort(t, someHistory(t, t.TempDir()))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"show", "--domain", "shop", "--from", "2026-11-20", "--to", "2026-11-21", "--tz", "Europe/Berlin"}, "2026-11-20 00:00 to 2026-11-21 00:00 CET (1d)\n"},
		{[]string{"top", "--from", "2026-11-21 12:30", "--to", "2026-11-21T12:45", "--tz", "Europe/Berlin"}, "2026-11-21 12:30 to 12:45 CET (15m), by hits\n"},
		{[]string{"show", "--domain", "shop", "--from", "2026-11-20", "--step", "1d", "--tz", "Asia/Kolkata"}, "2026-11-20 00:00 to 2026-11-22 00:00 IST (2d)\n"},
	} {
		if got, err := runHistory(t, append(c.args, "--admin", port)...); err != nil || !strings.HasPrefix(got, c.want) {
			t.Errorf("weir history %s prints\n%s(%v), want it to begin with %s", strings.Join(c.args, " "), got, err, c.want)
		}
	}
	q, out := curves.Question{}, terminal.Output{Zone: zoneOf(t, "America/New_York")}
	if err := (&period{From: "2026-11-20", To: "-1h"}).ask(&q, &out); err != nil || q.From != "1795150800" || q.To != "-1h" || q.Zone != "" {
		t.Errorf("without --tz, a day in New York is asked for as %+v (%v), want Unix seconds: whoever answers may be elsewhere", q, err)
	}
	// 1795262400 is noon of UTC, 07:00 in New York: 06:30 was half an hour ago, and 07:30 yesterday.
	noon := time.Unix(1795262400, 0)
	for clock, want := range map[moment]string{"06:30": "1795260600", "07:30": "1795177800"} {
		if got := clock.in(out.Zone, noon); got != want {
			t.Errorf("at 07:00 in New York, %s is asked for as %s, want %s: the last time that the clock there showed it", clock, got, want)
		}
	}
}

// What the README shows is what the command prints.
func TestTheReadmeShowsACurveAsItIs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	got, err := runHistory(t, "show", "--domain", "shop", "--path", "user/path=/pay", "--outcome", "within", "--from", "-2d",
		"--admin", historyPort(t, someHistory(t, t.TempDir())))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for line := range strings.Lines(got) {
		if line != "\n" {
			line = "    " + line
		}
		want.WriteString(line)
	}
	if !strings.Contains(string(text), want.String()) {
		t.Errorf("README.md does not show what its command prints:\n%s", want.String())
	}
}
