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
	hits    = 500 // of a user, spread over the window
	repeats = 5   // of what is measured; their median counts
	outOf   = 1_000_000
	begin   = 1_760_000_000_000_000 // when the measurements play, in microseconds
)

//go:embed testdata/literal.lua
var literal string

// layout is a way to keep the counts of limits.
type layout struct {
	name    string
	units   []descriptors.Unit // of each limit, the longest last
	fixed   bool
	log     bool
	bucket  bool
	every   time.Duration // the precision; 0: the default
	literal bool          // a key a bucket
}

var (
	minutely = []descriptors.Unit{descriptors.Minute}
	hourly   = []descriptors.Unit{descriptors.Hour}
	daily    = []descriptors.Unit{descriptors.Day}
	both     = []descriptors.Unit{descriptors.Minute, descriptors.Hour}
)

func layouts() []layout {
	return []layout{
		{name: "fixed hour", units: hourly, fixed: true},
		{name: "fixed day", units: daily, fixed: true},
		{name: "token bucket hour", units: hourly, bucket: true},
		{name: "token bucket day", units: daily, bucket: true},
		{name: "sliding minute by 1 s", units: minutely},
		{name: "sliding hour by 1 min", units: hourly},
		{name: "sliding day by 1 min", units: daily},
		{name: "sliding day by 1 s", units: daily, every: time.Second},
		{name: "sliding minute and hour", units: both},
		{name: "log, hour", units: hourly, log: true},
		{name: "log, day", units: daily, log: true},
		{name: "a key a bucket, hour by 1 min", units: hourly, literal: true},
		{name: "a key a bucket, day by 1 min", units: daily, literal: true},
	}
}

// limits are those of the layout, all of so many requests.
func (l layout) limits(t testing.TB, requests uint64) []descriptors.Limit {
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
	var limits []descriptors.Limit
	for _, unit := range l.units {
		limit, err := descriptors.NewLimit(requests, unit, 1, algorithm, l.every)
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, limit)
	}
	return limits
}

// user is the key of a user.
func user(n int) string {
	return string(AppendKey(nil, fmt.Appendf(nil, "4:shop4:user8:user%05d", n)))
}

// BenchmarkScript measures what the script costs inside Redis, 32 checks in a call, and prints the table that KEYS.md
// quotes. Where the server has functions it is called as one.
func BenchmarkScript(b *testing.B) {
	server, crowded := redistest.Single(b), redistest.Single(b)
	waysOf(b, crowded)
	ways := waysOf(b, server)
	w := ways[len(ways)-1]
	var all []cost
	var incrBys []float64
	for _, l := range layouts() {
		b.Run(l.name, func(b *testing.B) {
			if b.N > 1 {
				return // it has been measured
			}
			m := newBench(b, server, w, l)
			c := m.measure()
			// Many keys make an INCRBY dearer, and so does the removal of many: they have a server of their own.
			c.bytes, c.million = newBench(b, crowded, w, l).memory()
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
		writeCosts(os.Stdout, w, all, incrBys)
	}
}

// bench measures one layout.
type bench struct {
	*testing.B
	layout  layout
	way     way
	server  *redistest.Server
	client  *redis.Client
	window  int64     // the longest, in microseconds
	incrBys []float64 // CPU of one, in microseconds
}

func newBench(b *testing.B, server *redistest.Server, w way, l layout) *bench {
	b.Helper()
	if l.literal {
		w = asKeys
	}
	limits := l.limits(b, outOf)
	window := limits[len(limits)-1].Window.Microseconds()
	return &bench{B: b, layout: l, way: w, server: server, client: server.Client(), window: window}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// group is the users that are checked at the same moment, some in each call.
type group struct{ first, users, each int }

// thirtyTwo are as many users as INCRBYs in a pipeline, in one call.
var thirtyTwo = group{users: 32, each: 32}

// measure does all measurements of the layout. Each repeat goes on where the one before has ended, so that all but the
// first drop what has left the window.
func (b *bench) measure() cost {
	limits, tight := b.layout.limits(b, outOf), b.layout.limits(b, hits/2)
	c := cost{layout: b.layout}
	b.clear()
	b.spread(limits, begin, thirtyTwo) // the first windowful, which drops nothing
	now := int64(begin)
	var live, spread, denied []float64
	for range repeats {
		now += b.window
		last := now + b.window/hits*(hits-1)
		costs := b.costs(thirtyTwo,
			func() { b.spread(limits, now, thirtyTwo) },
			func() { b.checks(limits, last, thirtyTwo) },
			func() { b.checks(tight, last, thirtyTwo) }) // the same counts under limits that they are over
		spread, live, denied = append(spread, costs[0]), append(live, costs[1]), append(denied, costs[2])
	}
	c.live, c.spread, c.denied = middle(live), middle(spread), middle(denied)
	c.worst = b.worst(limits)
	if !b.layout.literal {
		c.wakes = b.wakes(limits)
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

// spread checks hits times over one window.
func (b *bench) spread(limits []descriptors.Limit, from int64, g group) {
	for i := range hits {
		b.ask(limits, from+b.window/hits*int64(i), g)
	}
}

// checks checks as often within a bucket.
func (b *bench) checks(limits []descriptors.Limit, now int64, g group) {
	for i := range hits {
		b.ask(limits, now+int64(i), g)
	}
}

// ask checks one hit for each user of a group.
func (b *bench) ask(limits []descriptors.Limit, now int64, g group) {
	keys := make([]string, g.each)
	for done := 0; done < g.users; done += g.each {
		for n := range keys {
			keys[n] = user(g.first + done + n)
		}
		b.must(b.call(b.client, limits, now, keys...).Err())
	}
}

// call checks one hit for each key.
func (b *bench) call(client redis.Cmdable, limits []descriptors.Limit, now int64, keys ...string) *redis.Cmd {
	checks := slices.Repeat([]*backend.Check{{Limits: limits, Hits: 1}}, len(keys))
	return b.way.call(b.Context(), client, keys, now, checks...)
}

// costs are what the checks of each f cost, which are hits of every user of g, in INCRBYs. One is measured before the
// first and after each, and the two beside a figure are its unit.
func (b *bench) costs(g group, fs ...func()) []float64 {
	var costs []float64
	before := b.incrBy()
	for _, f := range fs {
		micros := b.cpu(f) / float64(hits*g.users)
		after := b.incrBy()
		costs = append(costs, micros/((before+after)/2))
		before = after
	}
	return costs
}

// cpu is what the server used for f, in microseconds.
func (b *bench) cpu(f func()) float64 {
	before := b.server.CPU(b)
	f()
	return float64((b.server.CPU(b) - before).Nanoseconds()) / 1e3
}

// incrBy is the CPU of one INCRBY, in microseconds.
func (b *bench) incrBy() float64 {
	const pipelines, each = 500, 32
	micros := b.cpu(func() {
		for i := range pipelines {
			_, err := b.client.Pipelined(b.Context(), func(p redis.Pipeliner) error {
				for n := range each {
					p.IncrBy(b.Context(), fmt.Sprintf("incrby:%04d", (i*each+n)%1000), 1)
				}
				return nil
			})
			b.must(err)
		}
	}) / (pipelines * each)
	b.incrBys = append(b.incrBys, micros)
	return micros
}

// memory says what the keys of a user take by MEMORY USAGE after a windowful, and what a million users would take: many
// copies of these keys are made, and what the server then uses more counts, its tables of keys and of their ends included.
func (b *bench) memory() (bytes, million float64) {
	b.clear()
	b.spread(b.layout.limits(b, outOf), begin, thirtyTwo)
	keys, err := b.client.Keys(b.Context(), strings.ReplaceAll(user(0), "{", `\{`)+"*").Result()
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
					p.Copy(b.Context(), key, strings.Replace(key, user(0), user(thirtyTwo.users+n), 1), 0, false)
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
