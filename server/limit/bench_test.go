package limit_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/weirproxy/weir/server/limit"
)

// BenchmarkDecide decides a request of one descriptor under two limits, from match to verdict, on the memory backend.
func BenchmarkDecide(b *testing.B) {
	run := func(b *testing.B, tallies bool, value func(i int) string) {
		l, _, recorder := newRecordingLimiter(b)
		if tallies {
			recorder.KeepTallies()
		}
		c := new(limit.Call)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			fill(c, value(i))
			if err := l.Decide(context.Background(), c); err != nil {
				b.Fatal(err)
			}
		}
	}
	values := make([]string, 1_000_000)
	for i := range values {
		values[i] = strconv.Itoa(i)
	}
	for name, tallies := range map[string]bool{"": false, " with tallies": true} {
		b.Run("known key"+name, func(b *testing.B) { run(b, tallies, func(i int) string { return values[i%1000] }) })
		b.Run("denied key"+name, func(b *testing.B) { run(b, tallies, func(int) string { return "ann" }) })
		b.Run("new key"+name, func(b *testing.B) { run(b, tallies, func(i int) string { return values[i%len(values)] }) })
	}
}
