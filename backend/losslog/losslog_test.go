package losslog

import (
	"fmt"
	"testing"
	"time"
)

func TestAKeyHadAStateForEachLossOfItsServer(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for name, c := range map[string]struct {
		happens func(*Log)
		since   int
		want    int
	}{
		"nothing":                   {func(*Log) {}, 0, 0},
		"a loss":                    {func(l *Log) { l.Note("a", 1, at(1)) }, 0, 1},
		"a loss before":             {func(l *Log) { l.Note("a", 1, at(1)) }, 2, 0},
		"a loss then":               {func(l *Log) { l.Note("a", 1, at(1)) }, 1, 1},
		"the server that lost most": {func(l *Log) { l.Note("a", 1, at(1)); l.Note("b", 1, at(1)); l.Note("b", 1, at(2)) }, 0, 2},
		"several at once":           {func(l *Log) { l.Note("a", 1, at(1)); l.Note("a", 30, at(2)); l.Note("a", 2, at(3)) }, 2, 32},
		"more than is remembered":   {func(l *Log) { many(l, "a", 2*maxLosses, at) }, 0, 2 * maxLosses},
		"the last of them":          {func(l *Log) { many(l, "a", 2*maxLosses, at) }, 2*maxLosses - 5, 5},
		"a server that left long ago": {func(l *Log) {
			l.Note("a", 2, start)
			l.Note("b", 1, start.Add(remembered+time.Second))
			l.Note("c", 1, start.Add(remembered+2*time.Second))
		}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := new(Log)
			c.happens(l)
			if got := l.Since(at(c.since)); got != c.want {
				t.Errorf("%d losses, want %d: a key may have been admitted up to its limit once for each, and once more", got, c.want)
			}
		})
	}
}

func many(l *Log, server string, n int, at func(int) time.Time) {
	for i := range n {
		l.Note(server, 1, at(i))
	}
}

func TestWhatIsRememberedOfLossesIsBounded(t *testing.T) {
	l := new(Log)
	for i := range 1000 { // servers that come and go, a day each
		many(l, fmt.Sprint("server ", i), 2, func(n int) time.Time { return time.Unix(int64(i)*86400+int64(n), 0) })
	}
	many(l, "one", 10_000, func(int) time.Time { return time.Unix(1000*86400, 0) })
	if len(l.of) > 402 || len(l.of["one"].last) > maxLosses {
		t.Errorf("%d servers are remembered, of one %d times; want those of 400 days, and %d", len(l.of), len(l.of["one"].last), maxLosses)
	}
}
