package engine

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

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
	tier, keep := history.Minutes, history.DefaultKeep()
	for tier < history.Days && at < now-int64(keep.Ages[tier]/time.Second) {
		tier++
	}
	return at / tier.Width() * tier.Width()
}

func TestAnyWindowBetweenBordersIsExact(t *testing.T) {
	r := dice(t)
	p := newPast(t, history.DefaultKeep())
	p.count(p.scatter(r, 3000, 60)...)
	p.roll()
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

// A series that was rolled early has days where its age promises minutes: the query finds out, and looks further.
func TestWhatWasRolledEarlyHasNoGap(t *testing.T) {
	keep := history.DefaultKeep()
	keep.MaxPoints = 1
	p := newPast(t, keep)
	now := p.clock.Load()
	midnight := now / day * day
	p.count(history.Increment{ID: busy, Minute: midnight/minute - 8*60, Hits: 240}, history.Increment{ID: busy, Minute: now/minute - 3, Hits: 7},
		history.Increment{ID: busy, Minute: now / minute, Hits: 9})
	p.roll()
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
