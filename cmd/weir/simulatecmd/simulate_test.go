package simulatecmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
)

const shop = `domain: shop
descriptors:
  - {key: user, rate_limit: {requests_per_unit: 10, unit: minute}}
  - {key: trial, shadow_mode: true, rate_limit: {requests_per_unit: 1, unit: minute}}
  - {key: open, rate_limit: {unlimited: true}}
`

// simulate runs a command on a configuration, and returns what it prints, decoded too if that is JSON.
func simulate(t *testing.T, rules string, c Command, in string) (text string, r report, err error) {
	t.Helper()
	return simulateUntil(t.Context(), t, rules, c, in)
}

func simulateUntil(ctx context.Context, t *testing.T, rules string, c Command, in string) (text string, r report, err error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "shop.yaml"), []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	c.Dirs = append(c.Dirs, dir)
	if c.Callers == 0 {
		c.Callers = 1
	}
	var out, errs bytes.Buffer
	err = c.Run(ctx, terminal.Output{In: strings.NewReader(in), Out: &out, Err: &errs, Zone: time.UTC})
	if c.JSON && out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", &out, err)
		}
	}
	return out.String() + errs.String(), r, err
}

// What every textbook says of the algorithms, asked of the limiter.
func TestBoundaryBurstsShowWhatEachAlgorithmAdmits(t *testing.T) {
	for _, n := range []uint64{10, 500} {
		rules := fmt.Sprintf("domain: shop\ndescriptors: [{key: user, rate_limit: {requests_per_unit: %d, unit: minute}}]\n", n)
		_, r, err := simulate(t, rules, Command{Pattern: "boundary", Descriptor: "user=ann", Others: true, JSON: true}, "")
		if err != nil {
			t.Fatal(err)
		}
		_, even, err := simulate(t, rules, Command{Pattern: "poisson", Rate: fmt.Sprintf("%d/minute", 60*n), For: 4 * time.Minute, Descriptor: "user=ann", Others: true,
			JSON: true}, "")
		if err != nil {
			t.Fatal(err)
		}
		worst := map[string]uint64{}
		for i, s := range r.Rules[0].Results {
			worst[s.Algorithm] = max(s.Worst[0], even.Rules[0].Results[i].Worst[0])
		}
		if w := worst["token_bucket"]; w < 2*n-2 || w > 2*n {
			t.Errorf("of %d, a token bucket admits %d in some window, want nearly twice as many", n, w)
		}
		for _, a := range descriptors.Algorithms() {
			l, err := descriptors.NewLimit(n, descriptors.Minute, 1, a, 0)
			if most, why := l.Bound(descriptors.ChargeByAlgorithm); err != nil || worst[a.String()] > most {
				t.Errorf("%s admits %d, and says %s", a, worst[a.String()], why)
			}
		}
		delete(worst, "token_bucket")
		want := map[string]uint64{"as it is": n, "sliding_log": n, "fixed_window": 2 * n} // it is a sliding_window
		if fmt.Sprint(worst) != fmt.Sprint(want) {
			t.Errorf("of %d, the worst windows are %v, want %v", n, worst, want)
		}
	}
}

// The example of descriptors/FORMAT.md.
func TestTwoPerMinuteExampleHolds(t *testing.T) {
	config := fixture.Config(t, "domain: shop\ndescriptors: [{key: user, rate_limit: {requests_per_unit: 2, unit: minute}}]\n")
	ann := []descriptors.Descriptor{{{Key: "user", Value: "ann"}}}
	asked := traffic(func(yield func(request) error) error {
		for _, second := range []int{40, 50, 70, 80, 100} {
			if err := yield(request{at: time.Unix(int64(second), 0), domain: "shop", descriptors: ann}); err != nil {
				return err
			}
		}
		return nil
	})
	for a, denied := range map[descriptors.Algorithm][]bool{
		descriptors.FixedWindow:   {false, false, false, false, true},
		descriptors.SlidingLog:    {false, false, true, true, false},
		descriptors.SlidingWindow: {false, false, true, true, true}, // the second 0:40 counts whole until 1:41
		descriptors.TokenBucket:   {false, false, false, true, false},
	} {
		s := newSimulation("", config, a)
		if err := errors.Join(run(t.Context(), asked, func([]request) {}, s), s.store.Close()); err != nil || !slices.Equal(s.over, denied) {
			t.Errorf("%s denies %v (%v), want %v", a, s.over, err, denied)
		}
	}
}

func TestRecordedTrafficIsReportedByRule(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("descriptor,time,hits\n")
	for i := range 12 { // in any order
		fmt.Fprintf(&rows, "\"user=ann\",%d.5,\nuser=bob + trial=x,%d,2\n", 1011-i, 1000+i)
	}
	rows.WriteString("open=1,1000,\nnobody=1,1970-01-01T00:16:40Z,\n")
	_, r, err := simulate(t, shop, Command{CSV: "-", JSON: true}, rows.String())
	if err != nil || len(r.Rules) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	want := map[string][6]uint64{"user": {36, 20, 16, 1, 2, 10}, "trial": {24, 0, 24, 1, 1, 0}}
	for _, rule := range r.Rules {
		s := rule.Results[0]
		if got := [6]uint64{s.Asked, s.Admitted, s.Denied, uint64(s.MinutesDenied), uint64(s.CallersDenied), s.Worst[0]}; got != want[rule.Path] {
			t.Errorf("of %s asked, admitted, denied, minutes and callers denied and worst window are %v, want %v", rule.Path, got, want[rule.Path])
		}
	}
	if user := r.Rules[1]; r.Requests != 26 || r.Unlimited != 2 || user.DeniedMost[0].Descriptor != "user=bob" || user.DeniedMost[0].Denied != 14 ||
		user.WorstMinute != (minute{960, 36, 16}) || !r.Rules[0].Shadow {
		t.Errorf("reported is %+v; want bob denied 14 hits, all in one minute, and trial in shadow mode", r)
	}
	text, _, err := simulate(t, shop, Command{CSV: "-", Others: true}, rows.String())
	for _, want := range []string{"26 requests, 1970-01-01 00:16:40 to 1970-01-01 00:16:51 UTC, of -\nNo limit applied to 2 of them",
		"\nshop trial  1/minute sliding_window, in shadow mode", "user=bob 14 of 24; user=ann 2 of 12\n  worst minute: 16 denied at 1970-01-01 00:16",
		"\ntoken_bucket  36     21        15 (41.7 %)  1 (100 %)   2 of 2          11\n"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%s\n%v; want %q", text, err, want)
		}
	}
}

func TestAccessLogIsMapped(t *testing.T) {
	log := `{"start_time":"2026-11-21T12:00:01.5Z","x_user":"ann","path":"/pay?a=1","peer":"10.0.0.1:123"}
{"start_time":"2026-11-21T12:00:00Z","x_user":"-","path":"/pay","peer":"10.0.0.2:124"}
{"start_time":"2026-11-21T12:00:00Z","x_user":null,"path":"/pay","peer":""}
`
	f := file{name: "-", domain: "shop", mapping: "user={x_user},path={path|path} + remote_address={peer|host}"}
	if err := f.read(t.Context(), strings.NewReader(log), new(terminal.Progress)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range f.all {
		got = append(got, r.text())
	}
	if want := []string{"remote_address=10.0.0.2", "user=ann,path=/pay + remote_address=10.0.0.1"}; !slices.Equal(got, want) {
		t.Errorf("asked is %q, want %q: what is missing is left out, as Envoy leaves it out, and the earlier request comes first", got, want)
	}
}

func TestComparedFilesDifferByRequest(t *testing.T) {
	older := t.TempDir()
	if err := os.WriteFile(filepath.Join(older, "shop.yaml"), []byte(strings.ReplaceAll(shop, "10, unit: minute", "2, unit: second")), 0o644); err != nil {
		t.Fatal(err)
	}
	rows := "1000,user=ann\n1000,user=ann\n1000,user=ann,5\n1000,open=1\n"
	for i := range 12 {
		rows += fmt.Sprintf("%d,user=bob\n", 1010+i)
	}
	text, r, err := simulate(t, shop, Command{Dirs: []string{older}, Compare: true, CSV: "-", JSON: true}, rows)
	if err != nil || len(r.Compared) != 2 || r.Compared[0].Hits != 2 || r.Compared[1].Hits != 5 || r.Compared[1].Denied != 5 ||
		r.Compared[0].Most[0].Descriptor != "user=bob" || r.Compared[1].Most[0].Descriptor != "user=ann" {
		t.Errorf("%s, %v; want ann's 5 hits in a second denied only before, and bob's eleventh and twelfth in a minute only now", text, err)
	}
	text, _, err = simulate(t, shop, Command{Dirs: []string{older}, Compare: true, CSV: "-"}, rows)
	if want := `No limit of the new files applied to 1 of them: weir check --explain says why.

Denied only by the new files: 2 hits of the 2 that they deny
  2  user=bob

Denied only by those in force: 5 hits of the 5 that they deny
  5  user=ann
`; err != nil || !strings.HasSuffix(text, want) {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}

func TestPatternsAskAtTheirRate(t *testing.T) {
	for kind, most := range map[string]int{"poisson": 140, "bursts": 140, "day": 140, "one-of-many": 2000} {
		p := &pattern{kind: kind, domain: "shop", rate: .1, length: 24 * time.Hour, burst: 10, random: rand.New(rand.NewPCG(1, 0))}
		var err error
		if p.callers, err = newCallers("user=u#", 100); err != nil {
			t.Fatal(err)
		}
		asked, byFirst, atNoon, last := 0, 0, 0, time.Time{}
		_ = p.traffic(func(r request) error {
			asked++
			if r.text() == "user=u1" {
				byFirst++
			}
			if h := r.at.Hour(); h >= 6 && h < 18 {
				atNoon++
			}
			if r.at.Before(last) {
				t.Fatalf("%s goes back in time", kind)
			}
			last = r.at
			return nil
		})
		want := 100 * 8640
		if asked < want*97/100 || asked > want*103/100 {
			t.Errorf("%s asks %d times, want about %d", kind, asked, want)
		}
		if share := byFirst * 10000 / asked; share > most || share < most/2 {
			t.Errorf("of %s %d of 10,000 are the first caller's, want up to %d", kind, share, most)
		}
		if busy := atNoon*100/asked > 70; busy != (kind == "day") {
			t.Errorf("of %s %d of %d come in the middle of the day", kind, atNoon, asked)
		}
	}
}

func TestPlotIsAnSVG(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.svg")
	if text, _, err := simulate(t, shop, Command{Pattern: "poisson", Descriptor: "user=<&#", Callers: 3, Plot: file}, ""); err != nil {
		t.Fatal(text, err)
	}
	svg, err := os.ReadFile(file)
	if text := string(svg); err != nil || !strings.HasPrefix(text, "<svg") || !strings.Contains(text, ">denied</text>") || !strings.Contains(text, "shop user, hits a minute") {
		t.Errorf("%.300s, %v; want an SVG with a curve of what is denied", svg, err)
	}
}

// One minute that denies something shows among the 1,440 of a point.
func TestPlottedPointsShowTheirWorstMinute(t *testing.T) {
	var year []minute
	for at := int64(0); at < 300*86400; at += 60 {
		year = append(year, minute{at, 2, 0})
	}
	year[5000] = minute{5000 * 60, 40, 30}
	asked, denied, width := curves(year)
	if width != 1440 || len(asked) != 300 || asked[2] != 2 || asked[3] != 40 || denied[3] != 30 || denied[4] != 0 {
		t.Errorf("%d points of %d minutes, the fourth of %v asked and %v denied; want 300 of 1,440, and its largest minute", len(asked), width, asked[3], denied[3])
	}
	file := filepath.Join(t.TempDir(), "a.svg")
	if text, _, err := simulate(t, shop, Command{CSV: "-", Plot: file}, "0,user=ann\n864000,user=ann\n"); err != nil {
		t.Fatal(text, err)
	}
	if svg, err := os.ReadFile(file); err != nil || !strings.Contains(string(svg), "each point is the largest of 49 minutes") {
		t.Errorf("%.300s, %v; want to be told what a point is", svg, err)
	}
}

// A rule that is of an algorithm already has no second line for it.
func TestOwnAlgorithmIsShownOnce(t *testing.T) {
	rules := shop + "  - {key: fixed, rate_limit: {requests_per_unit: 1, unit: minute, algorithm: fixed_window}}\n"
	_, r, err := simulate(t, rules, Command{CSV: "-", Others: true, JSON: true}, "0,user=ann\n1,fixed=a\n")
	shown := map[string]string{}
	for _, rule := range r.Rules {
		for _, s := range rule.Results {
			shown[rule.Path] += s.Algorithm + " "
		}
	}
	if err != nil || shown["user"] != "as it is fixed_window sliding_log token_bucket " || shown["fixed"] != "as it is sliding_window sliding_log token_bucket " {
		t.Errorf("%v, %v; want each other algorithm", shown, err)
	}
}

// What was simulated until Ctrl-C is reported, as a part of the traffic.
func TestInterruptedSimulationReportsAPart(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for _, isJSON := range []bool{false, true} {
		text, r, err := simulateUntil(ctx, t, shop, Command{Pattern: "poisson", Descriptor: "user=ann", Rate: "99999/second", JSON: isJSON}, "")
		if code, _ := terminal.ExitCode(err); code != 2 || !strings.Contains(err.Error(), "of a part of the traffic") || r.Interrupted != isJSON ||
			!isJSON && !strings.HasPrefix(text, "4,096 requests, 2026-01-01 00:00:00 to 2026-01-01 00:00:00 UTC, made up: poisson, 1 caller\nStopped before the end") {
			t.Errorf("%s, %v; want a batch reported as a part, and an error", text, err)
		}
	}
	f := file{name: "-"}
	if err := f.read(ctx, strings.NewReader("1,user=ann\n"), new(terminal.Progress)); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "stopped before all was read") {
		t.Errorf("reading ends with %v; want to be told that it was stopped", err)
	}
}

func TestProgressHasATotal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(file, []byte("1,user=ann\n2,user=ann\n3,user=ann\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	shown := terminal.ProgressFlag{Progress: true}
	for want, c := range map[string]Command{
		"33 of 33 bytes read, ":         {CSV: file, ProgressFlag: shown},
		"\n3 of 3 requests, ":           {CSV: file, ProgressFlag: shown},
		"4,096 of 359,996,400 requests": {Pattern: "poisson", Descriptor: "user=ann", Rate: "99999/second", ProgressFlag: shown},
	} {
		ctx, stop := context.WithCancel(t.Context())
		if c.Pattern != "" {
			stop()
		}
		if text, _, err := simulateUntil(ctx, t, shop, c, ""); (err == nil) == (c.Pattern != "") || !strings.Contains(text, want) {
			t.Errorf("%s, %v; want %s", text, err, want)
		}
		stop()
	}
}

// cpu is the time that this process has had on a processor, whatever else the machine does.
func cpu(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkSimulate simulates Poisson traffic of 1,000 callers at 1.2 times their limit, as it is and beside all algorithms.
func BenchmarkSimulate(b *testing.B) {
	config := fixture.Config(b, shop)
	callers, err := newCallers("user=u#", 1000)
	if err != nil {
		b.Fatal(err)
	}
	for name, algorithms := range map[string][]descriptors.Algorithm{"as it is": {0}, "beside all": {0, 1, 2, 3, 4}} {
		b.Run(name, func(b *testing.B) {
			p := &pattern{kind: "poisson", domain: "shop", callers: callers, rate: .2, length: time.Duration(b.N) * 5 * time.Millisecond,
				random: rand.New(rand.NewPCG(1, 0))}
			var all []*simulation
			for _, a := range algorithms {
				s := newSimulation(a.String(), config, a)
				defer s.store.Close()
				all = append(all, s)
			}
			begin := cpu(b)
			if err := run(b.Context(), p.traffic, func([]request) {}, all...); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(all[0].results.requests)/(cpu(b)-begin).Seconds(), "requests/cpu-s")
		})
	}
}

func TestLimitsBecomeThoseOfAnotherAlgorithm(t *testing.T) {
	limit := func(requests uint64, u descriptors.Unit, multiplier uint32, a descriptors.Algorithm) descriptors.Limit {
		l, err := descriptors.NewLimit(requests, u, multiplier, a, 0)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	const fixed, bucket = descriptors.FixedWindow, descriptors.TokenBucket
	few, err := limit(5, descriptors.Hour, 1, bucket).WithBurst(2)
	if err != nil {
		t.Fatal(err)
	}
	long := limit(9, descriptors.Year, 250, fixed)
	for _, tc := range []struct{ from, to []descriptors.Limit }{
		{[]descriptors.Limit{limit(9, descriptors.Minute, 1, fixed), few}, []descriptors.Limit{limit(9, descriptors.Minute, 1, bucket), few}},
		{[]descriptors.Limit{limit(9, descriptors.Hour, 1, fixed), few}, []descriptors.Limit{few}}, // one state: the smaller
		{[]descriptors.Limit{long, few}, []descriptors.Limit{long, few}},                           // no bucket leaks so slowly
	} {
		if got := convertLimits(tc.from, bucket); !slices.Equal(got, tc.to) {
			t.Errorf("%v become %v, want %v", tc.from, got, tc.to)
		}
	}
}
