package redis

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// patterns choose the replica that is asked, by the time since the beginning. In turns, each is asked for a second, and
// keeps its last lease until its next turn. The replica that goes quiet was asked alone until shortly before the limit is
// reached, and then is not asked for a whole window.
var patterns = []struct {
	name string
	asks func(o *overload, at time.Duration) int
}{
	{"in turns", func(o *overload, at time.Duration) int { return int(at/time.Second) % len(o.replicas) }},
	{"one goes quiet", func(o *overload, at time.Duration) int {
		if n := len(o.replicas); n > 1 && at%(7*o.window/4) > 3*o.window/5 {
			return 1 + o.r.IntN(n-1)
		}
		return 0
	}},
	{"evenly", func(o *overload, _ time.Duration) int { return o.r.IntN(len(o.replicas)) }},
}

// TestLeasesDenyFewChecksTooEarly asks for a fifth more hits than the limit, and counts the checks that are denied, by the
// store or the deny cache, while other replicas hold unused hits.
func TestLeasesDenyFewChecksTooEarly(t *testing.T) {
	t.Parallel()
	const minute, hour = time.Minute, time.Hour
	c, table := on(t, topology.Single), new(strings.Builder)
	for _, replicas := range []int{1, 3, 10} {
		for _, p := range patterns[:min(len(patterns), replicas)] { // one replica has one pattern
			earlyOf := func(n int, window time.Duration) {
				unit := map[time.Duration]string{minute: "minute", hour: "hour"}[window]
				o := overload{n: n, window: window, width: window / 60, r: rand.New(rand.NewPCG(uint64(n), uint64(replicas))),
					served: serve(t, c, replicas, true, fmt.Sprintf("[{key: user, rate_limit: {requests_per_unit: %d, unit: %s}}]", n, unit))}
				o.run(fmt.Sprint(n, p.name), p.asks)
				name := fmt.Sprintf("%d a %s, %d replicas, %s", n, unit, replicas, p.name)
				share := 100 * float64(o.early) / float64(o.asked)
				fmt.Fprintf(table, "\n%-43s: %6d checks, %5d denied, %5d of them too early (%5.2f %%), for %v at most; at most %d unused",
					name, o.asked, o.denied, o.early, share, o.stretch.Round(100*time.Millisecond), o.unused)
				if o.early > 0 && (n < 80 || replicas == 1) || share > 0.5 {
					t.Errorf("%s: %.2f %% of checks are denied too early; want none on one replica or below 80, and 0.5 %% at most", name, share)
				}
			}
			earlyOf(79, minute)
			earlyOf(1000, minute)
			if replicas == 3 || !testing.Short() && !process.Raced() {
				earlyOf(10_000, minute)
			}
			if *leaseRounds > 1000 { // which takes minutes
				earlyOf(20, minute)
				earlyOf(100_000, minute)
				earlyOf(1000, hour)
				earlyOf(100_000, hour)
			}
		}
	}
	t.Log("denied too early:", table)
}

// overload asks for a fifth more than fits, for two windows. A denial is too early if the buckets of the last window hold
// fewer used hits than the limit.
type overload struct {
	*served
	n             int
	window, width time.Duration // width is that of a bucket
	r             *rand.Rand

	asked, denied, early, unused int
	stretch                      time.Duration // the longest in which every check was denied too early
}

func (o *overload) run(key string, asks func(*overload, time.Duration) int) {
	began, early := o.now, time.Time{}                                         // since when every check is denied too early
	used, gap := make(map[time.Time]int), float64(o.window)/(1.2*float64(o.n)) // by bucket
	for o.now.Sub(began) < 2*o.window {
		o.passes(time.Duration(o.r.ExpFloat64() * gap))
		bucket := o.now.Truncate(o.width)
		status := o.replicas[asks(o, o.now.Sub(began))].asks(user(key))[0]
		o.asked++
		if status.Allowed {
			used[bucket]++
			early = time.Time{}
			continue
		}
		o.denied++
		held := 0
		for b := bucket.Add(-o.window); !b.After(bucket); b = b.Add(o.width) {
			held += used[b]
		}
		if held >= o.n {
			early = time.Time{}
			continue
		}
		if early.IsZero() {
			early = o.now
		}
		o.early, o.unused, o.stretch = o.early+1, max(o.unused, o.n-held), max(o.stretch, o.now.Sub(early))
	}
}
