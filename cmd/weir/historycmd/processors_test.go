package historycmd

import (
	"runtime"
	"testing"
)

func TestQueriesHaveProcessorsOfTheirOwnWhileTheyRun(t *testing.T) {
	t.Setenv("GOMAXPROCS", "3")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	check := func(when string, want int) {
		t.Helper()
		if n := runtime.GOMAXPROCS(0); n != want {
			t.Errorf("%s there are %d processors, want %d", when, n, want)
		}
	}
	p := newProcessors(2)
	first := p.begin()
	check("beside a query", 5)
	second := p.begin()
	check("beside two", 5)
	first()
	p.restore()
	check("beside one that is left", 5)
	second()
	check("right after", 5)
	again := p.begin()
	p.restore()
	check("where one has begun again", 5)
	again()
	p.restore()
	check("a minute later", 3)
	p.restore()
	check("once more", 3)
	p.begin()()
	check("beside another", 5)
	p.restore()
	check("in the end", 3)
}
