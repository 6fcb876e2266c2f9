package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
)

// told returns the warnings and infos of a query for a moment, in order.
func told(t testing.TB, e *Engine, text string, at int64) (warnings, infos []string) {
	t.Helper()
	r := instant(t, e, text, at)
	if r.Err != nil {
		t.Fatalf("%s: %v", text, r.Err)
	}
	warnings, infos = r.Warnings.AsStrings(text, 0, 0)
	slices.Sort(infos)
	slices.Sort(warnings)
	return warnings, infos
}

// inFile returns what a file in a directory holds.
func inFile(t testing.TB, dir string) *past {
	t.Helper()
	p := newPast(t, history.DefaultKeep())
	store, err := filehistory.Open(filehistory.Config{Dir: dir, Keep: history.DefaultKeep(), Now: p.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	p.store = store
	return p
}

func TestWhatLiesInsideABucketSaysByHowMuchItMayBeOff(t *testing.T) {
	p := newPast(t, history.DefaultKeep())
	now := p.clock.Load()
	midnight := now / day * day
	old, recent := midnight-40*day, midnight-10*day // kept by the day and by the hour
	for n := range int64(20) {
		p.count(history.Increment{ID: busy, Minute: old/minute + 60*n, Hits: 10},
			history.Increment{ID: busy, Minute: recent/minute + 60*n, Hits: uint64(100 * (n + 1))},
			history.Increment{ID: busy, Minute: now/minute - 1 - n, Hits: 3})
	}
	p.roll()
	e, s := p.engine(), selectorOf(busy)
	const info = "PromQL info: until %s UTC hits are kept by the %s: a moment, or an end of a window, inside such a bucket may be off by up to %d hits a series"
	tell := func(until int64, width string, hits int) string {
		return fmt.Sprintf(info, time.Unix(until, 0).UTC().Format(time.DateTime), width, hits)
	}
	for _, c := range []struct {
		text string
		at   int64
		want []string
	}{
		{"increase(" + s + "[1d])", old + day, nil},
		{"increase(" + s + "[100d])", midnight, nil},
		{"increase(" + s + "[100d])", now, nil},
		{s, now, nil},
		{s, old, nil},
		{s, old + hour, []string{tell(old+day, "day", 200)}},
		{"increase(" + s + "[1d])", old + 12*hour, []string{tell(old+day, "day", 200)}},
		{"increase(" + s + "[1d])", old + 36*hour, []string{tell(old+day, "day", 200)}},
		{"increase(" + s + "[1h])", recent + hour, nil},
		{"increase(" + s + "[5m])", recent + 65*minute, []string{tell(recent+2*hour, "hour", 200)}},
		{"increase(" + s + "[5m] offset 1h)", recent + 125*minute, []string{tell(recent+2*hour, "hour", 200)}},
		{"increase(" + s + fmt.Sprintf("[5m] @ %d)", recent+65*minute), now, []string{tell(recent+2*hour, "hour", 200)}},
		{"increase(" + s + "[5m] anchored)", recent + 65*minute, []string{tell(recent+2*hour, "hour", 200)}},
		{"sum_over_time(increase(" + s + "[1h])[10h:1h])", recent + 10*hour, nil},
		{"sum_over_time(increase(" + s + "[1h])[10h:30m])", recent + 10*hour, []string{tell(recent+10*hour, "hour", 1000)}},
		{fmt.Sprintf("increase(%s[%ds])", s, 30*day+12*hour), recent + 30*minute, []string{tell(recent+hour, "hour", 100)}},
		{fmt.Sprintf("increase(%s[%ds])", s, 30*day-12*hour), recent + 30*minute, []string{tell(old+day, "day", 200), tell(recent+hour, "hour", 100)}},
		{"increase(" + s + "[5m])", now - 30, []string{tell(now/minute*minute-4*minute, "minute", 3)}},
		{"weir_hits_peak", old + hour, nil},
	} {
		warnings, infos := told(t, e, c.text, c.at)
		if len(warnings) > 0 {
			t.Errorf("%s warns of %q", c.text, warnings)
		}
		if !slices.Equal(infos, c.want) {
			t.Errorf("%s at %v says\n%q, want\n%q", c.text, time.Unix(c.at, 0).UTC(), infos, c.want)
		}
	}
}

// What is said is true: no answer is further off than its remark, and one without a remark is exact.
func TestNoAnswerIsFurtherOffThanItSays(t *testing.T) {
	r := dice(t)
	p := newPast(t, history.DefaultKeep())
	p.count(p.scatter(r, 3000, 60)...)
	p.roll()
	e, now := p.engine(), p.clock.Load()
	texts := []string{"sum(increase(%s[%ds])) or vector(0)", "sum(rate(%s[%ds])) * %[2]d or vector(0)"}
	for n := range 400 {
		id, at := someIDs[n%len(someIDs)], (now-r.Int64N(60*day))/minute*minute
		back := 60 * (1 + r.Int64N(1+r.Int64N(30*day/minute)))
		if r.IntN(4) == 0 {
			at = p.aligned(r, 60)
		}
		if r.IntN(4) == 0 {
			back = day
		}
		text := fmt.Sprintf(texts[n/4%2], selectorOf(id), back)
		_, infos := told(t, e, text, at)
		var bound float64
		for _, info := range infos {
			var hits float64
			_, rest, _ := strings.Cut(info, "off by up to ")
			if _, err := fmt.Sscanf(rest, "%g", &hits); err != nil {
				t.Fatalf("%q: %v", info, err)
			}
			bound += 2 * hits // one for each end
		}
		if off := one(t, e, text, at) - float64(p.between(id, at-back, at)); off > bound+1e-6 || off < -bound-1e-6 {
			t.Errorf("%s at %d is off by %v, and says %q", text, at, off, infos)
		}
	}
}

func TestCountsBeyondFloatsWarn(t *testing.T) {
	p := newPast(t, history.DefaultKeep())
	p.count(history.Increment{ID: busy, Minute: p.clock.Load()/minute - 5, Hits: exactly})
	if warnings, _ := told(t, p.engine(), selectorOf(busy), p.clock.Load()); len(warnings) > 0 {
		t.Errorf("2^53 is exact, and there is a warning: %q", warnings)
	}
	p.count(history.Increment{ID: busy, Minute: p.clock.Load()/minute - 5, Hits: 1})
	if warnings, _ := told(t, p.engine(), selectorOf(busy), p.clock.Load()); len(warnings) != 1 || !strings.Contains(warnings[0], "2^53") {
		t.Errorf("above 2^53 the warnings are %q, want one", warnings)
	}
}

func TestHitsOlderThanWhatIsKeptAreToldOf(t *testing.T) {
	keep := history.DefaultKeep()
	keep.Ages[history.Days] = 50 * 24 * time.Hour
	p := newPast(t, keep)
	now := p.clock.Load()
	p.count(history.Increment{ID: busy, Minute: now/minute - 1440*70, Hits: 5}, history.Increment{ID: busy, Minute: now/minute - 1440*40, Hits: 6})
	p.roll()
	e := p.engine()
	exact(t, "the counter", one(t, e, selectorOf(busy), now), 11)
	if _, infos := told(t, e, "increase("+selectorOf(busy)+"[60d])", now/day*day); len(infos) != 1 || !strings.Contains(infos[0], "up to 5 hits a series are older") {
		t.Errorf("a window that begins before all that is kept says %q", infos)
	}
	if _, infos := told(t, e, "increase("+selectorOf(busy)+"[30d])", now/day*day); len(infos) > 0 {
		t.Errorf("a window of what is kept says %q", infos)
	}
}

// Commands and the page show user/path=/pay; labels have user/path=%2Fpay. Who takes one for the other is told.
func TestAPathSpeltAsPeopleAreShownItIsToldOf(t *testing.T) {
	p := newPast(t, history.DefaultKeep())
	now := p.clock.Load()
	p.count(history.Increment{ID: busy, Minute: now/minute - 5, Hits: 6})
	e := p.engine()
	if _, infos := told(t, e, `weir_hits_total{path="user/path=/pay"}`, now); len(infos) != 1 || !strings.Contains(infos[0], `it is spelt "user/path=%2Fpay"`) {
		t.Errorf("the path as people are shown it says %q, want how labels spell it", infos)
	}
	for _, text := range []string{`weir_hits_total{path="user/path=%2Fpay"}`, `weir_hits_total{path="user/path=/buy"}`} {
		if _, infos := told(t, e, text, now); len(infos) > 0 {
			t.Errorf("%s says %q", text, infos)
		}
	}
}

// A damaged series is named, and the others are answered as if it were not there.
func TestADamagedSeriesIsAWarningAndTheOthersAreAnswered(t *testing.T) {
	for name, spoil := range map[string]func(t testing.TB, path string) string{
		"a chunk": historytest.SpoilChunk, "a name": historytest.SpoilSeries} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			p := inFile(t, dir)
			for n := range 3 {
				p.count(history.Increment{ID: history.ID{Domain: "shop", Path: fmt.Sprint(n)}, Minute: p.clock.Load()/minute - 5, Hits: 7})
			}
			if err := p.store.(*filehistory.Store).Close(); err != nil {
				t.Fatal(err)
			}
			key := spoil(t, dir+"/"+filehistory.Name)
			p.store = inFile(t, dir).store
			e := p.engine()
			exact(t, "the sum of the sound ones", one(t, e, "sum(weir_hits_total)", p.clock.Load()), 14)
			if warnings, _ := told(t, e, "weir_hits_total", p.clock.Load()); len(warnings) != 1 || !strings.Contains(warnings[0], key) {
				t.Errorf("the warnings are %q, want one with the key %s", warnings, key)
			}
		})
	}
}
