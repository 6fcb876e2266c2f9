package hits

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
)

// countedRecorder is a recorder of users' hits, with the exact counts.
type countedRecorder struct {
	*Recorder
	counter ruleCounter
	exact   map[string]uint64
}

func newCountedRecorder(t testing.TB) *countedRecorder {
	t.Helper()
	r, c := New(0), fixture.Config(t, shop)
	return &countedRecorder{r, counterAt(r.Table(c), c, "shop", "user", ""), make(map[string]uint64)}
}

func (r *countedRecorder) hit(name string, hits uint64, d *backend.Decision, when time.Time) {
	r.counter.Counter.Record(&Event{Rule: r.counter.rule, Descriptor: descriptors.Descriptor{{Key: "user", Value: name}}, Key: r.Key([]byte(name)),
		At: when, Check: checkOf(hits), Decision: d}, modes)
	r.exact["user="+name] += hits
}

// topKeys returns the ranking, also by descriptor.
func (r *countedRecorder) topKeys(when time.Time) (TopKeys, map[string]TopKey) {
	top, all := r.TopKeys(when), make(map[string]TopKey)
	for _, t := range top.Keys {
		all[t.Descriptor] = t
	}
	return top, all
}

func TestTopGivesLowerBounds(t *testing.T) {
	a, random := newCountedRecorder(t), rand.New(rand.NewPCG(7, 8))
	zipf, denied := rand.NewZipf(random, 1.1, 1, 1<<20), uint64(0)
	const requests = 30_000
	for i := range requests {
		when := noon.Add(time.Duration(i) * 50 * time.Second / requests) // two periods
		a.hit(fmt.Sprint(zipf.Uint64()), 1+random.Uint64N(3), within, when)
		if i%200 == 0 {
			denied++
			a.hit("over", 1, over, when)
		}
	}
	top, all := a.topKeys(noon.Add(59 * time.Second))
	if top.Missing == 0 || top.Missing > 2*requests/keysPerShard {
		t.Errorf("%d hits of a key may be missing; want some, and at most a part's 65th", top.Missing)
	}
	for name, exact := range a.exact {
		if got := all[name]; got.Hits() > exact || got.Hits()+top.Missing < exact {
			t.Errorf("%s had %d hits, and the ranking has %d, missing at most %d", name, exact, got.Hits(), top.Missing)
		}
	}
	if got := all["user=over"]; got.Over+top.MissingOverLimit < denied || got.Over > denied || top.MissingOverLimit > 0 {
		t.Errorf("who is over has %d of %d hits, missing at most %d; want all: few others are over", got.Over, denied, top.MissingOverLimit)
	}
	if n := len(top.Keys); n > 4*shardCount*keysPerShard {
		t.Errorf("%d keys are held, want a bound", n)
	}
}

func TestTopDropsKeysAfterTwoPeriods(t *testing.T) {
	a := newCountedRecorder(t)
	a.hit("ann", 3, over, noon)
	a.hit("bob", 1, within, noon.Add(20*time.Second))
	a.hit("ann", 4, within, noon.Add(topPeriod*time.Second))
	a.hit("ann", 1, within, noon.Add(20*time.Second)) // a request that was under way
	for _, c := range []struct {
		after    time.Duration
		ann, bob uint64
		over     uint64
	}{{59 * time.Second, 8, 1, 3}, {60 * time.Second, 5, 0, 0}, {90 * time.Second, 0, 0, 0}} {
		top, all := a.topKeys(noon.Add(c.after))
		if ann, bob := all["user=ann"], all["user=bob"]; ann.Hits() != c.ann || ann.Over != c.over || bob.Hits() != c.bob {
			t.Errorf("after %v ann has %d hits, %d over, and bob %d; want %d, %d and %d since %v", c.after, ann.Hits(), ann.Over, bob.Hits(),
				c.ann, c.over, c.bob, top.Since)
		}
	}
	if top, _ := a.topKeys(noon.Add(-time.Hour)); len(top.Keys) > 0 {
		t.Error("the clock stepped back, and there are takers")
	}
	a.hit("ann", 1, within, noon.Add(-time.Hour))
	if _, all := a.topKeys(noon.Add(-time.Hour)); all["user=ann"].Hits() != 1 {
		t.Error("after the clock stepped back nothing is counted")
	}
}

func BenchmarkRecord(b *testing.B) {
	for name, keys := range map[string]int{"one key": 1, "100,000 keys": 100_000} {
		b.Run(name, func(b *testing.B) {
			a := newCountedRecorder(b)
			hits := make([]Event, keys)
			for i := range hits {
				value := fmt.Sprint(i)
				hits[i] = Event{Rule: a.counter.rule, Descriptor: descriptors.Descriptor{{Key: "user", Value: value}}, Key: a.Key([]byte(value)),
					At: noon, Check: checkOf(1), Decision: within}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				a.counter.Counter.Record(&hits[i%keys], modes)
			}
		})
	}
}
