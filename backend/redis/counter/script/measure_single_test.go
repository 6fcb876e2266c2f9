package script

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/descriptors"
)

// runs is how often a check is timed alone; the shortest counts.
const runs = 11

// slowest is the longest of some checks. Several users do the same, from the first, and of each check the shortest
// counts: the others were interrupted by something else.
func (b *bench) slowest(limits []descriptors.Limit, moments []int64, first int) (slowest time.Duration) {
	for part := range slices.Chunk(moments, 20) {
		took := b.timed(func(p redis.Pipeliner, each func()) {
			for _, now := range part {
				for n := range runs {
					b.call(p, limits, now, user(first+n))
					each()
				}
			}
		})
		for same := range slices.Chunk(took, runs) {
			slowest = max(slowest, slices.Min(same))
		}
	}
	return slowest
}

// timed runs scripts and returns how long each took by the server's own clock, which its statistics of commands add up.
// All go in one pipeline: a server that has just slept is slow.
func (b *bench) timed(run func(p redis.Pipeliner, each func())) []time.Duration {
	var stats []*redis.StringCmd
	_, err := b.client.Pipelined(b.Context(), func(p redis.Pipeliner) error {
		each := func() { stats = append(stats, p.Info(b.Context(), "commandstats")) }
		each()
		run(p, each)
		return nil
	})
	b.must(err)
	var took []time.Duration
	before := spent(stats[0].Val(), b.way)
	for _, s := range stats[1:] {
		after := spent(s.Val(), b.way)
		took = append(took, time.Duration(after-before)*time.Microsecond)
		before = after
	}
	return took
}

// spent is how long all calls of a way took a server, in microseconds; 0 if there were none.
func spent(commandstats string, w way) (micros int64) {
	_, stats, _ := strings.Cut(commandstats, "cmdstat_"+strings.ToLower(w.name)+":")
	var calls int64
	if n, _ := fmt.Sscanf(stats, "calls=%d,usec=%d", &calls, &micros); n < 2 {
		return 0
	}
	return micros
}

// worst is the longest check of those spread over two windows.
func (b *bench) worst(limits []descriptors.Limit) time.Duration {
	b.clear()
	var moments []int64
	for i := range int64(2 * hits) {
		moments = append(moments, begin+b.window/hits*i)
	}
	return b.slowest(limits, moments, 0)
}

// wakes is the longest check that a user makes who has hit every bucket of a window, or filled a long log, and then
// rests for a part of another: 23/24 of it, or less. The checks after the first go on with what it has left to do.
func (b *bench) wakes(limits []descriptors.Limit) (worst time.Duration) {
	b.clear()
	width := b.window / longLog
	if !b.layout.log && !b.layout.bucket {
		width = limits[0].Levels()[0].Microseconds()
	}
	b.fill(limits, b.window/width, width)
	for _, rest := range []int64{1, 6, 12, 18, 23} {
		for n := range runs {
			b.must(b.client.Copy(b.Context(), user(0), user(1+n), 0, true).Err())
		}
		var moments []int64
		for check := range int64(5) {
			moments = append(moments, begin+b.window/24*(24+rest)+check*width)
		}
		worst = max(worst, b.slowest(limits, moments, 1))
	}
	return worst
}

// fill counts some hits of the first user, one each so many microseconds.
func (b *bench) fill(limits []descriptors.Limit, hits, every int64) {
	for done := int64(0); done < hits; done += 1000 {
		_, err := b.client.Pipelined(b.Context(), func(p redis.Pipeliner) error {
			for n := done; n < min(done+1000, hits); n++ {
				b.call(p, limits, begin+n*every, user(0))
			}
			return nil
		})
		b.must(err)
	}
}

func TestTimesOfScriptsAreReadFromTheStatistics(t *testing.T) {
	const stats = "# Commandstats\r\ncmdstat_get:calls=3,usec=9,usec_per_call=3.00\r\n" +
		"cmdstat_evalsha:calls=2,usec=31,usec_per_call=15.50,rejected_calls=0\r\n" +
		"cmdstat_fcall:calls=1,usec=12,usec_per_call=12.00,rejected_calls=0\r\n"
	for _, c := range []struct {
		stats string
		way   way
		want  int64
	}{{stats, asScript, 31}, {stats, asFunction, 12}, {"# Commandstats\r\n", asFunction, 0}} {
		if got := spent(c.stats, c.way); got != c.want {
			t.Errorf("%ss took %d µs, want %d: every figure of a single check rests on it", c.way.name, got, c.want)
		}
	}
}
