package script

import (
	_ "embed" // the layout to compare with
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/descriptors"
)

const (
	users   = 32  // that one call of the script checks, and INCRBYs in one pipeline
	hits    = 500 // of a user, spread over the window
	repeats = 5   // of what is measured; their median counts
	runs    = 11  // of a check that is timed alone; the shortest counts
	outOf   = 1_000_000
	begin   = 1_760_000_000_000_000 // when the measurements play, in microseconds
)

//go:embed testdata/literal.lua
var literal string

// layout is a way to keep a limit's counts.
type layout struct {
	name    string
	unit    descriptors.Unit
	fixed   bool
	log     bool
	bucket  bool
	every   time.Duration // the precision; 0: the default
	literal bool          // a key a bucket
}

func layouts() []layout {
	return []layout{
		{name: "fixed hour", unit: descriptors.Hour, fixed: true},
		{name: "fixed day", unit: descriptors.Day, fixed: true},
		{name: "token bucket hour", unit: descriptors.Hour, bucket: true},
		{name: "token bucket day", unit: descriptors.Day, bucket: true},
		{name: "sliding minute by 1 s", unit: descriptors.Minute},
		{name: "sliding hour by 1 min", unit: descriptors.Hour},
		{name: "sliding day by 1 min", unit: descriptors.Day},
		{name: "sliding day by 1 s", unit: descriptors.Day, every: time.Second},
		{name: "log, hour", unit: descriptors.Hour, log: true},
		{name: "log, day", unit: descriptors.Day, log: true},
		{name: "a key a bucket, hour by 1 min", unit: descriptors.Hour, literal: true},
		{name: "a key a bucket, day by 1 min", unit: descriptors.Day, literal: true},
	}
}

func (l layout) limit(t testing.TB, requests uint64) descriptors.Limit {
	t.Helper()
	algorithm := descriptors.SlidingWindow
	switch {
	case l.fixed:
		algorithm = descriptors.FixedWindow
	case l.bucket:
		algorithm = descriptors.TokenBucket
	case l.log:
		algorithm = descriptors.SlidingLog
	}
	limit, err := descriptors.NewLimit(requests, l.unit, 1, algorithm, l.every)
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

// BenchmarkScript measures what the script costs inside Redis, and prints the table that KEYS.md quotes.
func BenchmarkScript(b *testing.B) {
	server := redistest.Single(b)
	var all []cost
	var incrBys []float64
	for _, l := range layouts() {
		b.Run(l.name, func(b *testing.B) {
			m := &bench{B: b, server: server, client: server.Client(), layout: l}
			c := m.measure()
			for _, metric := range []struct {
				value float64
				unit  string
			}{
				{c.live, "live-INCRBYs"}, {c.spread, "spread-INCRBYs"}, {c.denied, "denied-INCRBYs"}, {c.bytes, "bytes/user"},
				{float64(c.worst.Microseconds()), "worst-us"}, {float64(c.wakes.Microseconds()), "wakes-us"}, {0, "ns/op"},
			} {
				b.ReportMetric(metric.value, metric.unit)
			}
			all, incrBys = append(all, c), append(incrBys, m.incrBys...)
		})
	}
	if len(all) > 0 {
		writeCosts(os.Stdout, all, incrBys)
	}
}

// bench measures one layout.
type bench struct {
	*testing.B
	layout  layout
	server  *redistest.Server
	client  *redis.Client
	incrBys []float64 // CPU of one, in microseconds
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// user is the key of a user.
func (l layout) user(n int) string {
	return string(AppendKey(nil, fmt.Appendf(nil, "4:shop4:user8:user%05d", n)))
}

// measure does all measurements of the layout. Each repeat goes on where the one before has ended, so that all but the
// first drop what has left the window.
func (b *bench) measure() cost {
	l := b.layout.limit(b, outOf)
	c := cost{layout: b.layout}
	b.clear()
	b.spread(&l, begin, users) // the first windowful, which drops nothing
	c.bytes, c.million = b.memory()
	now := int64(begin)
	var live, spread, denied []float64
	tight := b.layout.limit(b, hits/2)
	for range repeats {
		incrBy := b.incrBy()
		b.incrBys = append(b.incrBys, incrBy)
		now += l.Window.Microseconds()
		spread = append(spread, b.cpu(func() { b.spread(&l, now, users) })/(hits*users)/incrBy)
		last := now + l.Window.Microseconds()/hits*(hits-1)
		live = append(live, b.cpu(func() { b.checks(&l, last) })/(hits*users)/incrBy)
		// The same counts under a limit that they are over.
		denied = append(denied, b.cpu(func() { b.checks(&tight, last) })/(hits*users)/incrBy)
	}
	c.live, c.spread, c.denied = middle(live), middle(spread), middle(denied)
	c.worst = b.worst(&l)
	if !b.layout.literal {
		c.wakes = b.wakes(&l)
	}
	return c
}

// clear empties the server and loads the scripts.
func (b *bench) clear() {
	b.must(b.client.FlushAll(b.Context()).Err())
	for _, source := range []string{Source(), literal} {
		b.must(b.client.ScriptLoad(b.Context(), source).Err())
	}
}

// spread checks hits times over one window, each time for some users.
func (b *bench) spread(l *descriptors.Limit, from int64, users int) {
	for i := range hits {
		b.must(b.call(l, from+l.Window.Microseconds()/hits*int64(i), 0, users).Err())
	}
}

// checks checks as often, for all users, within a bucket.
func (b *bench) checks(l *descriptors.Limit, now int64) {
	for i := range hits {
		b.must(b.call(l, now+int64(i), 0, users).Err())
	}
}

// call checks one hit for each of some users.
func (b *bench) call(l *descriptors.Limit, now int64, first, users int) *redis.Cmd {
	var keys []string
	for n := range users {
		keys = append(keys, b.layout.user(first+n))
	}
	return b.script(b.client, l, now, keys)
}

func (b *bench) script(client redis.Cmdable, l *descriptors.Limit, now int64, keys []string) *redis.Cmd {
	args := []any{now}
	if b.layout.literal {
		args = append(args, 1, l.Requests, l.Window.Microseconds())
		for _, width := range l.Levels() {
			args = append(args, width.Microseconds())
		}
		return client.EvalSha(b.Context(), redis.NewScript(literal).Hash(), keys, args...)
	}
	checks := make([]*backend.Check, len(keys))
	for i := range checks {
		checks[i] = &backend.Check{Limits: []descriptors.Limit{*l}, Hits: 1}
	}
	return asFunction.call(b.Context(), client, keys, now, checks...)
}

// cpu is what the server used for f, in microseconds.
func (b *bench) cpu(f func()) float64 {
	before := b.server.CPU(b)
	f()
	return float64((b.server.CPU(b) - before).Nanoseconds()) / 1e3
}

// incrBy is the CPU of one INCRBY, in microseconds.
func (b *bench) incrBy() float64 {
	const pipelines = 1000
	return b.cpu(func() {
		for i := range pipelines {
			_, err := b.client.Pipelined(b.Context(), func(p redis.Pipeliner) error {
				for n := range users {
					p.IncrBy(b.Context(), fmt.Sprintf("incrby:%04d", (i*users+n)%1000), 1)
				}
				return nil
			})
			b.must(err)
		}
	}) / (pipelines * users)
}

// memory says what the keys of a user take by MEMORY USAGE, and what a million users would take: many copies of these
// keys are made, and what the server then uses more counts, its tables of keys and of their ends included.
func (b *bench) memory() (bytes, million float64) {
	keys, err := b.client.Keys(b.Context(), strings.ReplaceAll(b.layout.user(0), "{", `\{`)+"*").Result()
	b.must(err)
	for _, key := range keys {
		used, err := b.client.MemoryUsage(b.Context(), key, 0).Result()
		b.must(err)
		bytes += float64(used)
	}
	copies := min(max(int(64e6/bytes), 256), 1<<16)
	before := b.used()
	for done := 0; done < copies; done += 100 {
		_, err := b.client.Pipelined(b.Context(), func(p redis.Pipeliner) error {
			for n := done; n < min(done+100, copies); n++ {
				for _, key := range keys {
					p.Copy(b.Context(), key, strings.Replace(key, b.layout.user(0), b.layout.user(users+n), 1), 0, false)
				}
			}
			return nil
		})
		b.must(err)
	}
	million = (b.used() - before) / float64(copies) * 1e6
	return bytes, million
}

// used is how much memory the server's data takes, in bytes.
func (b *bench) used() float64 { return float64(b.server.Stat(b, "used_memory")) }

// slowest is the longest of some checks. Several users do the same, from the first, and of each check the shortest
// counts: the others were interrupted by something else.
func (b *bench) slowest(l *descriptors.Limit, moments []int64, first int) (slowest time.Duration) {
	for part := range slices.Chunk(moments, 20) {
		took := b.timed(func(p redis.Pipeliner, each func()) {
			for _, now := range part {
				for n := range runs {
					b.script(p, l, now, []string{b.layout.user(first + n)})
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
	before := evalMicros(stats[0].Val())
	for _, s := range stats[1:] {
		after := evalMicros(s.Val())
		took = append(took, time.Duration(after-before)*time.Microsecond)
		before = after
	}
	return took
}

// evalMicros is how long all EVALSHAs of a server took, 0 if there were none.
func evalMicros(commandstats string) (micros int64) {
	_, stats, _ := strings.Cut(commandstats, "cmdstat_fcall:")
	var calls int64
	if n, _ := fmt.Sscanf(stats, "calls=%d,usec=%d", &calls, &micros); n < 2 {
		return 0
	}
	return micros
}

// worst is the longest check of those spread over two windows.
func (b *bench) worst(l *descriptors.Limit) time.Duration {
	b.clear()
	var moments []int64
	for i := range int64(2 * hits) {
		moments = append(moments, begin+l.Window.Microseconds()/hits*i)
	}
	return b.slowest(l, moments, 0)
}

// wakes is the longest check that a user makes who has hit every bucket of a window, or filled a long log, and then
// rests for a part of another: 23/24 of it, or less. The checks after the first go on with what it has left to do.
func (b *bench) wakes(l *descriptors.Limit) (worst time.Duration) {
	b.clear()
	width := l.Window.Microseconds() / longLog
	if !b.layout.log && !b.layout.bucket {
		width = l.Levels()[0].Microseconds()
	}
	buckets := l.Window.Microseconds() / width
	for done := int64(0); done < buckets; done += 1000 {
		_, err := b.client.Pipelined(b.Context(), func(p redis.Pipeliner) error {
			for i := done; i < min(done+1000, buckets); i++ {
				b.script(p, l, begin+i*width, []string{b.layout.user(0)})
			}
			return nil
		})
		b.must(err)
	}
	for _, rest := range []int64{1, 6, 12, 18, 23} {
		for n := range runs {
			b.must(b.client.Copy(b.Context(), b.layout.user(0), b.layout.user(1+n), 0, true).Err())
		}
		var moments []int64
		for check := range int64(5) {
			moments = append(moments, begin+l.Window.Microseconds()/24*(24+rest)+check*width)
		}
		worst = max(worst, b.slowest(l, moments, 1))
	}
	return worst
}

func TestTimesOfScriptsAreReadFromTheStatistics(t *testing.T) {
	const stats = "# Commandstats\r\ncmdstat_get:calls=3,usec=9,usec_per_call=3.00\r\n" +
		"cmdstat_fcall:calls=2,usec=31,usec_per_call=15.50,rejected_calls=0\r\n"
	if got := evalMicros(stats); got != 31 {
		t.Errorf("EVALSHAs took %d µs, want 31: every figure of a single check rests on it", got)
	}
	if got := evalMicros("# Commandstats\r\n"); got != 0 {
		t.Errorf("EVALSHAs took %d µs on a server that had none, want 0", got)
	}
}
