package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/history"
)

// spoilt is a store of which one series is damaged.
type spoilt struct {
	history.Store
	damaged history.Series
}

func (s spoilt) Query(ctx context.Context, q history.Query, yield func(history.Series) error) error {
	if err := yield(s.damaged); err != nil {
		return err
	}
	return s.Store.Query(ctx, q, yield)
}

// A damaged series is named, and the others are answered as if it were not there.
func TestDamagedSeriesIsAWarning(t *testing.T) {
	p := newPast(t, history.DefaultRetention())
	at := p.clock.Load()/minute - 5
	p.count(history.Increment{ID: busy, Minute: at, Hits: 7}, history.Increment{ID: sparse, Minute: at, Hits: 7})
	for _, damaged := range []history.Series{{ID: someIDs[1], Lifetime: 5}, {Unnamed: true}} {
		damaged.Err = errors.New("row 7374 is damaged")
		e := p.engine(func(c *Config) { c.Store = spoilt{p.store, damaged} })
		exact(t, "the sum of the sound ones", one(t, e, "sum(weir_hits_total)", p.clock.Load()), 14)
		warnings, _ := instant(t, e, "weir_hits_total", p.clock.Load()).Warnings.AsStrings("", 0, 0)
		if len(warnings) != 1 || !strings.Contains(warnings[0], "row 7374") {
			t.Errorf("the warnings of %+v are %q, want one with its reason", damaged, warnings)
		}
	}
}
