package engine

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
)

// The table of what Grafana asks, over 70 days in all tiers, of a busy and a sparse series.
func TestQueriesBetweenBucketBordersAreExact(t *testing.T) {
	p := seventyDays(t, history.DefaultRetention())
	e, now := p.engine(), p.clock.Load()
	midnight := now / day * day
	for _, c := range []struct {
		text           string // with the selector, once or twice
		from, to, step int64
		width          int64   // of the window that ends at each moment; all of the past if 0
		per            float64 // what the hits of the window are to be divided by
		offset         int64   // how much earlier it ends
	}{
		{"increase(%s[1d])", midnight - 60*day, midnight, day, day, 1, 0},
		{"increase(%s[30d])", midnight - 30*day, midnight, day, 30 * day, 1, 0},
		{"increase(%s[1h])", midnight - 25*day, midnight - 5*day, hour, hour, 1, 0},
		{"increase(%s[5m])", midnight - 42*hour, midnight + 9*hour, 5 * minute, 5 * minute, 1, 0},
		{"increase(%s[1m])", midnight + hour, midnight + 10*hour, minute, minute, 1, 0},
		{"delta(%s[1h])", midnight - 25*day, midnight - 5*day, hour, hour, 1, 0},
		{"increase(((%s[1h])))", midnight - 25*day, midnight - 20*day, hour, hour, 1, 0},
		{"increase(%s[1d] anchored)", midnight - 60*day, midnight, day, day, 1, 0},
		{"increase(%s[1d] smoothed)", midnight - 60*day, midnight, day, day, 1, 0},
		{"rate(%s[1d])", midnight - 60*day, midnight, day, day, day, 0},
		{"%s", midnight - 45*day, midnight - 35*day, day, 0, 1, 0},
		{"sum_over_time(increase(%s[1h])[1d:1h])", midnight - 25*day, midnight - 20*day, day, day, 1, 0},
		{"increase(%s[1h] offset 20d)", midnight - 2*day, midnight, hour, hour, 1, 20 * day},
		{"increase(%s[7d] offset -7d)", midnight - 60*day, midnight - 40*day, day, 7 * day, 1, -7 * day},
		{"sum(increase(%s[30d]))", midnight, midnight, day, 30 * day, 1, 0},
		{"increase(%s[100d])", midnight, midnight, day, 0, 1, 0},
		{"increase(%s[10y])", midnight, midnight, day, 0, 1, 0},
		{"%[1]s - %[1]s offset 30d", midnight, midnight, day, 30 * day, 1, 0},
		{"max_over_time(%s[5d:1d])", midnight - 40*day, midnight - 40*day, day, 0, 1, 0},
		{"%s", now, now, day, 0, 1, 0},
		{"%s @ end()", now, now, day, 0, 1, 0},
		{"%s @ " + fmt.Sprint(midnight-50*day), now, now, day, 0, 1, now - (midnight - 50*day)},
		{"increase(%s[10d] @ " + fmt.Sprint(midnight-40*day) + ")", now, now, day, 10 * day, 1, now - (midnight - 40*day)},
	} {
		for _, id := range []history.ID{busy, sparse} {
			text := fmt.Sprintf(c.text, selectorOf(id))
			points := curve(t, e, text, c.from, c.to, c.step)
			for at := c.from; at <= c.to; at += c.step {
				got, found := points[at]
				if !found {
					t.Fatalf("%s has a gap at %d", text, at)
				}
				begin, end := at-c.offset-c.width, at-c.offset
				if c.width == 0 {
					begin = 0
				}
				exact(t, fmt.Sprintf("%s at %d", text, at), got, float64(p.between(id, begin, end))/c.per)
			}
		}
	}
}

// Zoomed out so far that no bucket ends in a window, a rate is the mean of its bucket, without a gap.
func TestRatesInsideBucketsHaveNoGap(t *testing.T) {
	p := seventyDays(t, history.DefaultRetention())
	e := p.engine()
	midnight := p.clock.Load() / day * day
	for _, id := range []history.ID{busy, sparse} {
		from := midnight - 20*day
		points := curve(t, e, "rate("+selectorOf(id)+"[5m])", from+5*minute, from+5*day, 5*minute)
		if len(points) != 5*day/(5*minute) {
			t.Errorf("%v: %d points in five days by five minutes, want %d: hours are no reason for a gap", id, len(points), 5*day/(5*minute))
		}
		var sum float64
		for at, f := range points {
			sum += f * 5 * minute
			begin := (at - 1) / hour * hour
			if want := float64(p.between(id, begin, begin+hour)) / hour; !near(f, want) {
				t.Errorf("%v at %d: rate %v, want %v, that of its hour", id, at, f, want)
			}
		}
		if want := p.between(id, from, from+5*day); rounded(sum) != want {
			t.Errorf("%v: the rates of five days add up to %v hits, want %d: none is missing or counted twice", id, sum, want)
		}
		for text, step := range map[string]int64{selectorOf(id): 5 * minute, "rate(" + selectorOf(id) + "[5m])": hour} {
			if got, want := len(curve(t, e, text, midnight-45*day, midnight-35*day, step)), int(10*day/step)+1; got != want {
				t.Errorf("%s, 35 to 45 days ago: %d points, want %d", text, got, want)
			}
		}
	}
}

func TestNoSamplesOutsideTheHistory(t *testing.T) {
	p := newPast(t, history.DefaultRetention())
	now := p.clock.Load()
	first := now/minute - 40
	p.count(history.Increment{ID: busy, Minute: first, Hits: 5}, history.Increment{ID: busy, Minute: first + 10, Hits: 6})
	e, s := p.engine(), selectorOf(busy)
	for _, c := range []struct {
		text string
		at   int64
		want []float64
	}{
		{s, 4, nil},
		{s, first*minute - 1, nil},
		{s, first * minute, []float64{0}},
		{s, first*minute + minute, []float64{5}},
		{s, now, []float64{11}},
		{s, now + 4*minute, []float64{11}},
		{s, now + 5*minute, nil},
		{s, now + 400*day, nil},
		{"increase(" + s + "[5m])", first*minute - 1, nil},
		{"increase(" + s + "[1h])", now, []float64{11}},
		{"increase(" + s + "[5m])", now + 6*minute, nil},
		{"increase(" + s + "[5m])", now + 400*day, nil},
		{"weir_hits_peak", first*minute - 1, nil},
		{"weir_hits_peak", first * minute, []float64{5}},
		{"weir_hits_peak", first*minute + minute, []float64{0}},
		{"weir_hits_peak", now + 5*minute, nil},
	} {
		v, err := instant(t, e, c.text, c.at).Vector()
		if err != nil || len(v) != len(c.want) || len(v) == 1 && v[0].F != c.want[0] {
			t.Errorf("%s at %d: %v (%v), want %v", c.text, c.at-now, v, err, c.want)
		}
	}
}

var seed = flag.Uint64("seed", 16, "seed of the random histories")

// dice returns the random numbers of a test, and tells their seed.
func dice(t testing.TB) *rand.Rand {
	t.Logf("run again with -seed %d", *seed)
	return rand.New(rand.NewPCG(*seed, 16))
}

// someIDs are series of all metrics.
var someIDs = []history.ID{{Domain: "shop", Path: "user"}, {Domain: "shop", Path: "user", Outcome: history.Over, Value: "ann"},
	{Domain: "mail", Path: "path=%2F", Outcome: history.Near}, {Domain: "mail", Path: "", Outcome: history.Shadow, Value: "\"}\n"}}

// scatter returns hits of some days before now, more of the last than of the first.
func (p *past) scatter(r *rand.Rand, n int, days int64) (all []history.Increment) {
	seen := make(map[history.Increment]bool)
	for range n {
		i := history.Increment{ID: someIDs[r.IntN(len(someIDs))], Minute: p.clock.Load()/minute - r.Int64N(1+r.Int64N(days*day/minute))}
		if seen[i] {
			continue
		}
		seen[i] = true
		i.Hits = 1 + r.Uint64N(1000)
		all = append(all, i)
	}
	return all
}

// aligned returns a random moment of some days that no bucket is cut at, if none is coarser than its age tells.
func (p *past) aligned(r *rand.Rand, days int64) int64 {
	now := p.clock.Load()
	at := now - r.Int64N(1+r.Int64N(days*day))
	tier, keep := history.Minutes, history.DefaultRetention()
	for tier < history.Days && at < now-int64(keep.Ages[tier]/time.Second) {
		tier++
	}
	return at / tier.Width() * tier.Width()
}

func TestAnyWindowBetweenBordersIsExact(t *testing.T) {
	r := dice(t)
	p := newPast(t, history.DefaultRetention())
	p.count(p.scatter(r, 3000, 60)...)
	historytest.Downsample(p.t, p.store, p.now())
	e := p.engine()
	for n := range 400 {
		id, from, to := someIDs[n%len(someIDs)], p.aligned(r, 60), p.aligned(r, 60)
		if from == to {
			continue
		}
		from, to = min(from, to), max(from, to)
		text := fmt.Sprintf("sum(increase(%s[%ds])) or vector(0)", selectorOf(id), to-from)
		exact(t, fmt.Sprintf("%s at %d", text, to), one(t, e, text, to), float64(p.between(id, from, to)))
	}
}

// A series that was downsampled early has days where its age promises minutes: the query finds out, and looks further.
func TestEarlyDownsampledSeriesHasNoGap(t *testing.T) {
	keep := history.DefaultRetention()
	keep.MaxPoints = 1
	p := newPast(t, keep)
	now := p.clock.Load()
	midnight := now / day * day
	p.count(history.Increment{ID: busy, Minute: midnight/minute - 8*60, Hits: 240}, history.Increment{ID: busy, Minute: now/minute - 3, Hits: 7},
		history.Increment{ID: busy, Minute: now / minute, Hits: 9})
	historytest.Downsample(p.t, p.store, p.now())
	e := p.engine()
	exact(t, "the day", one(t, e, "increase("+selectorOf(busy)+"[1d])", midnight), 240)
	points := curve(t, e, "increase("+selectorOf(busy)+"[1h])", midnight-10*hour, midnight, hour)
	if len(points) != 11 {
		t.Errorf("there are %d points, want 11", len(points))
	}
	for at, f := range points {
		if !near(f, 10) {
			t.Errorf("the hour until %d has %v hits, want 10: a 24th of what is kept by the day", at, f)
		}
	}
	if got := len(curve(t, e, selectorOf(busy), now-10*hour, now, minute)); got != 10*60+1 {
		t.Errorf("the counter has %d points in ten hours, want 601", got)
	}
}
