package topology

import (
	"testing"
	"time"
)

func TestAnotherPrimaryOrAnyNodeOfARingIsALoss(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for name, c := range map[string]struct {
		kind    Type
		happens func(*losses)
		want    int
	}{
		"any server of a ring": {Ring, func(l *losses) { l.note("a", now); l.note("b", now) }, 2},
		"another single one":   {Single, func(l *losses) { l.note("a", now); l.note("b", now) }, 1},
		"the same primary":     {Sentinel, func(l *losses) { l.reached("p", "1", now); l.reached("p", "1", now) }, 0},
		"another primary":      {Sentinel, func(l *losses) { l.reached("p", "1", now); l.reached("p", "2", now) }, 1},
	} {
		l := newLosses(Config{Type: c.kind})
		if c.happens(l); l.Since(now) != c.want {
			t.Errorf("%s: %d losses, want %d", name, l.Since(now), c.want)
		}
	}
}
