package script

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// asKeys calls the script that keeps a key a bucket.
var asKeys = way{"EVALSHA", callLiteral}

func callLiteral(ctx context.Context, c redis.Cmdable, keys []string, now any, checks ...*backend.Check) *redis.Cmd {
	l := &checks[0].Limits[0]
	args := []any{now, checks[0].Hits, l.Requests, l.Window.Microseconds()}
	for _, width := range l.Levels() {
		args = append(args, width.Microseconds())
	}
	return c.EvalSha(ctx, redis.NewScript(literal).Hash(), keys, args...)
}

// waysOf loads the script in all ways that the server knows, and returns these, the best last.
func waysOf(b *testing.B, server *redistest.Server) []way {
	b.Helper()
	err := server.Client().FunctionLoadReplace(b.Context(), Library()).Err()
	if err == nil {
		return []way{asScript, asFunction}
	}
	if !strings.Contains(err.Error(), "unknown command") {
		b.Fatalf("the library cannot be loaded: %v", err)
	}
	return []way{asScript}
}

// groups are those whose calls are compared. Where a call checks few there are few users, as a call costs much whatever
// it checks.
func groups() []group {
	return []group{{users: 4, each: 1}, {users: 8, each: 4}, thirtyTwo}
}

func calledLayouts() []layout {
	return []layout{
		{name: "fixed hour", units: hourly, fixed: true},
		{name: "fixed minute and hour", units: both, fixed: true},
		{name: "token bucket hour", units: hourly, bucket: true},
		{name: "sliding hour by 1 min", units: hourly},
		{name: "sliding day by 1 min", units: daily},
		{name: "sliding minute and hour", units: both},
		{name: "log, hour", units: hourly, log: true},
	}
}

// BenchmarkScriptCalls measures what a check costs inside Redis that is alone in its call, and one of four and of 32,
// by EVALSHA and by FCALL side by side, and prints the table that KEYS.md quotes.
func BenchmarkScriptCalls(b *testing.B) {
	server := redistest.Single(b)
	ways := waysOf(b, server)
	var all []comparison
	var incrBys []float64
	for _, l := range calledLayouts() {
		b.Run(l.name, func(b *testing.B) {
			if b.N > 1 {
				return // it has been measured
			}
			m := newBench(b, server, asScript, l)
			c := m.compare(ways)
			b.ReportMetric(0, "ns/op")
			all, incrBys = append(all, c), append(incrBys, m.incrBys...)
		})
	}
	if len(all) > 0 {
		writeComparisons(os.Stdout, ways, all, incrBys)
	}
}

// compare measures all calls of the layout. Each has users of its own, who live through the same windows.
func (b *bench) compare(ways []way) comparison {
	limits := b.layout.limits(b, outOf)
	c := comparison{layout: b.layout, live: make(map[call][]float64), spread: make(map[call][]float64)}
	b.clear()
	for repeat := range int64(1 + repeats) {
		from := begin + repeat*b.window
		for i, g := range groups() {
			var spread, live []func()
			for n, w := range ways {
				g := g
				g.first = 100 * (len(ways)*i + n)
				spread = append(spread, func() { b.way = w; b.spread(limits, from, g) })
				live = append(live, func() { b.way = w; b.checks(limits, from+b.window/hits*(hits-1), g) })
			}
			costs := b.costs(g, append(spread, live...)...)
			if repeat == 0 {
				continue // it drops nothing yet
			}
			for n, w := range ways {
				called := call{w.name, g.each}
				c.spread[called] = append(c.spread[called], costs[n])
				c.live[called] = append(c.live[called], costs[len(ways)+n])
			}
		}
	}
	return c
}
