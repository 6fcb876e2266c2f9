package script

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/descriptors"
)

// BenchmarkScript is what a check costs inside Redis, as KEYS.md has it: its CPU in INCRBYs of a pipeline of 32, within
// the newest bucket (live), spread over a window, and denied; by each way, with 1, 4 and 32 checks in a call; and the
// bytes of a user.
func BenchmarkScript(b *testing.B) {
	server := redistest.Single(b)
	client := server.Client()
	if err := client.FunctionLoad(b.Context(), Library()).Err(); err != nil {
		b.Fatal(err)
	}
	if err := client.ScriptLoad(b.Context(), Source()).Err(); err != nil {
		b.Fatal(err)
	}
	const sliding, fixed = descriptors.SlidingWindow, descriptors.FixedWindow
	for name, l := range map[string]struct {
		units     []descriptors.Unit
		algorithm descriptors.Algorithm
		precision time.Duration
	}{
		"fixed hour":              {[]descriptors.Unit{descriptors.Hour}, fixed, 0},
		"fixed minute and hour":   {[]descriptors.Unit{descriptors.Minute, descriptors.Hour}, fixed, 0},
		"token bucket hour":       {[]descriptors.Unit{descriptors.Hour}, descriptors.TokenBucket, 0},
		"sliding hour by 1 min":   {[]descriptors.Unit{descriptors.Hour}, sliding, 0},
		"sliding day by 1 min":    {[]descriptors.Unit{descriptors.Day}, sliding, 0},
		"sliding day by 1 s":      {[]descriptors.Unit{descriptors.Day}, sliding, time.Second},
		"sliding minute and hour": {[]descriptors.Unit{descriptors.Minute, descriptors.Hour}, sliding, 0},
		"log, hour":               {[]descriptors.Unit{descriptors.Hour}, descriptors.SlidingLog, 0},
	} {
		limits := func(n uint64) (limits []descriptors.Limit) {
			for _, u := range l.units {
				limits = append(limits, backendtest.NewLimit(b, n, u, 1, l.algorithm, l.precision))
			}
			return limits
		}
		for _, w := range []way{asScript, asFunction} {
			for _, each := range []int{1, 4, 32} {
				b.Run(fmt.Sprint(name, "/", w.name, "/", each), func(b *testing.B) {
					c := &costs{B: b, server: server, way: w, keys: make([]string, each)}
					for i := range c.keys {
						c.keys[i] = string(AppendKey(nil, fmt.Appendf(nil, "4:shop4:user%s:%s%d:%d", name, w.name, each, i)))
					}
					c.measure(limits(1e6), limits(hits/2))
				})
			}
		}
	}
}

const (
	hits  = 500                   // of a user, spread over the window
	begin = 1_760_000_000_000_000 // when tests play, in microseconds
)

// costs measures one call of the script.
type costs struct {
	*testing.B
	server *redistest.Server
	way    way
	keys   []string // of the checks of a call
}

// measure plays a window for each round of the benchmark. The tight limits are over their counts.
func (c *costs) measure(limits, tight []descriptors.Limit) {
	client, window := c.server.Client(), limits[len(limits)-1].Window.Microseconds()
	ask := func(limits []descriptors.Limit, now int64) {
		checks := slices.Repeat([]*backend.Check{{Limits: limits, Hits: 1}}, len(c.keys))
		if err := c.way.call(c.Context(), client, c.keys, now, checks...).Err(); err != nil {
			c.Fatal(err)
		}
	}
	incrBys := func() {
		_, err := client.Pipelined(c.Context(), func(p redis.Pipeliner) error {
			for i := range 32 {
				p.IncrBy(c.Context(), fmt.Sprint("incrby:", i), 1)
			}
			return nil
		})
		if err != nil {
			c.Fatal(err)
		}
	}
	now, used := int64(begin), make(map[string]time.Duration)
	for c.Loop() {
		last := now + window/hits*(hits-1)
		for _, part := range []struct {
			name  string
			check func(i int64)
		}{
			{"spread", func(i int64) { ask(limits, now+window/hits*i) }},
			{"live", func(i int64) { ask(limits, last+i) }},
			{"denied", func(i int64) { ask(tight, last+hits+i) }},
			{"INCRBY", func(int64) { incrBys() }},
		} {
			before := c.server.CPU(c.B)
			for i := range int64(hits) {
				part.check(i)
			}
			used[part.name] += c.server.CPU(c.B) - before
		}
		now += window
	}
	for _, name := range []string{"live", "spread", "denied"} {
		perCheck := float64(used[name]) / float64(len(c.keys))
		c.ReportMetric(perCheck/(float64(used["INCRBY"])/32), name+"-INCRBYs")
	}
	bytes, err := client.MemoryUsage(c.Context(), c.keys[0], 0).Result()
	if err != nil {
		c.Fatal(err)
	}
	c.ReportMetric(float64(bytes), "bytes/user")
}
