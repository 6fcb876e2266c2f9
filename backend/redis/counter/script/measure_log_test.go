package script

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// longLog is how many hits the logs hold whose single checks are timed.
const longLog = 5000

// BenchmarkScriptOfLongLogs times single checks of a log of 5,000 hits, spread over the hour before, and prints the
// table that KEYS.md quotes. Each is the best of some on copies of the same log.
func BenchmarkScriptOfLongLogs(b *testing.B) {
	if b.N > 1 {
		return // it has been measured
	}
	server := redistest.Single(b)
	ways := waysOf(b, server)
	m := newBench(b, server, ways[len(ways)-1], layout{units: hourly, log: true})
	m.clear()
	hour := time.Hour.Microseconds()
	limits := m.layout.limits(b, longLog)
	m.fill(limits, longLog, hour/longLog)
	last := begin + hour/longLog*(longLog-1)
	rows := [][]string{{"a check of a log of 5,000 hits", "µs"}, {"---", "---"}}
	for _, c := range []struct {
		what string
		op   backend.Op
		hits uint64
		at   int64
	}{
		{"denied", backend.Count, 1, last + 1},
		{"denied, with the search for a moment when 2,500 fit", backend.Count, longLog / 2, last + 1},
		{"a look", backend.Look, 0, last + 1},
		{"admitted as one leaves", backend.Count, 1, last + hour/longLog + 1},
		{"admitted after 2,500 have left", backend.Count, 1, last + hour/2},
		{"admitted after all have left", backend.Count, 1, last + hour},
		{"refund of 1", backend.Refund, 1, last + 1},
		{"refund of 2,500", backend.Refund, longLog / 2, last + 1},
		{"refund of all", backend.Refund, longLog, last + 1},
		{"the clock stepped back by a second", backend.Count, 1, last - 1e6},
		{"the clock stepped back by half an hour: 2,500 become one", backend.Count, 1, last - hour/2},
	} {
		check := backend.Check{Limits: limits, Op: c.op, Hits: c.hits}
		took := m.once(&check, c.at)
		rows = append(rows, []string{c.what, fmt.Sprint(took.Microseconds())})
	}
	fmt.Fprintf(os.Stdout, "\n%s\n", markdown(rows))
}

// once is how long a check of the first user takes, the best of some on copies.
func (b *bench) once(c *backend.Check, at int64) time.Duration {
	for n := range runs {
		b.must(b.client.Copy(b.Context(), user(0), user(1+n), 0, true).Err())
	}
	return slices.Min(b.timed(func(p redis.Pipeliner, each func()) {
		for n := range runs {
			b.way.call(b.Context(), p, []string{user(1 + n)}, at, c)
			each()
		}
	}))
}
