package topology

import (
	"fmt"
	"testing"
	"time"
)

func TestAKeyHadAStateForEachLossOfItsServer(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for name, c := range map[string]struct {
		happens func(*losses)
		since   int
		want    int
	}{
		"nothing":                   {func(*losses) {}, 0, 0},
		"a loss":                    {func(l *losses) { l.note("a", at(1)) }, 0, 1},
		"a loss before":             {func(l *losses) { l.note("a", at(1)) }, 2, 0},
		"a loss then":               {func(l *losses) { l.note("a", at(1)) }, 1, 1},
		"the server that lost most": {func(l *losses) { l.note("a", at(1)); l.note("b", at(1)); l.note("b", at(2)) }, 0, 2},
		"any server of a ring":      {func(l *losses) { l.shared = true; l.note("a", at(1)); l.note("b", at(2)) }, 0, 2},
		"the same primary":          {func(l *losses) { l.reached("p", "1", at(1)); l.reached("p", "1", at(2)) }, 0, 0},
		"another primary":           {func(l *losses) { l.reached("p", "1", at(1)); l.reached("p", "2", at(2)) }, 0, 1},
		"more than is remembered":   {func(l *losses) { many(l, "a", 2*maxLosses, at) }, 0, 2 * maxLosses},
		"the last of them":          {func(l *losses) { many(l, "a", 2*maxLosses, at) }, 2*maxLosses - 5, 5},
		"a server that left long ago": {func(l *losses) {
			l.note("a", start)
			l.note("a", start)
			l.note("b", start.Add(keepLosses+time.Second))
			l.note("c", start.Add(keepLosses+2*time.Second))
		}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLosses(Config{})
			c.happens(l)
			if got := l.since(at(c.since)); got != c.want {
				t.Errorf("%d losses, want %d: a key may have been admitted up to its limit once for each, and once more", got, c.want)
			}
		})
	}
}

func many(l *losses, server string, n int, at func(int) time.Time) {
	for i := range n {
		l.note(server, at(i))
	}
}

func TestWhatIsRememberedOfLossesIsBounded(t *testing.T) {
	l := newLosses(Config{})
	for i := range 1000 { // servers that come and go, a day each
		many(l, fmt.Sprint("server ", i), 2, func(n int) time.Time { return time.Unix(int64(i)*86400+int64(n), 0) })
	}
	many(l, "one", 10_000, func(int) time.Time { return time.Unix(1000*86400, 0) })
	if len(l.servers) > 402 || len(l.servers["one"].times) > maxLosses {
		t.Errorf("%d servers are remembered, of one %d times; want those of 400 days, and %d", len(l.servers), len(l.servers["one"].times), maxLosses)
	}
}
