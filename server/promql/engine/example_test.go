package engine

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// The example of README.md.
func TestTheExampleIsTrue(t *testing.T) {
	p := newPast(t, inMemory, history.DefaultKeep())
	at := func(month time.Month, day, hour, minute int) int64 {
		return time.Date(2026, month, day, hour, minute, 0, 0, time.UTC).Unix()
	}
	for _, hits := range []struct {
		at   int64
		hits uint64
	}{{at(9, 1, 8, 0), 1_000_000}, {at(10, 13, 7, 7), 200}, {at(11, 13, 12, 50), 120}, {at(11, 13, 14, 1), 20},
		{at(11, 23, 10, 7), 4}, {at(11, 23, 10, 8), 3}} {
		p.land(history.Increment{ID: busy, Minute: hits.at / minute, Hits: hits.hits})
	}
	p.roll()
	e := p.engine()
	for _, c := range []struct {
		text string
		at   int64
		want float64
	}{
		{"weir_hits_total", at(10, 13, 0, 0), 1_000_000},
		{"weir_hits_total", at(10, 14, 0, 0), 1_000_200},
		{"weir_hits_total", at(11, 13, 13, 0), 1_000_320},
		{"weir_hits_total", at(11, 13, 15, 0), 1_000_340},
		{"weir_hits_total", at(11, 23, 10, 8), 1_000_344},
		{"weir_hits_total", p.clock.Load(), 1_000_347},
		{"increase(weir_hits_total[1d])", at(10, 14, 0, 0), 200},
		{"increase(weir_hits_total[41d])", at(11, 23, 0, 0), 340},
		{"increase(weir_hits_total[1h])", at(10, 13, 13, 0), 200.0 / 24},
		{"rate(weir_hits_total[5m])", at(11, 13, 12, 31), 120.0 / 3600},
	} {
		if got := one(t, e, c.text, c.at); math.Abs(got-c.want) > 1e-7 {
			t.Errorf("%s at %v is %v, want %v", c.text, time.Unix(c.at, 0).UTC(), got, c.want)
		}
	}
	const said = "until 2026-10-14 00:00:00 UTC hits are kept by the day: a moment, or an end of a window, inside such a bucket may be off by up to 200 hits a series"
	if _, infos := told(t, e, "increase(weir_hits_total[1h])", at(10, 13, 13, 0)); len(infos) != 1 || !strings.HasSuffix(infos[0], said) {
		t.Errorf("the info is %q, want %q", infos, said)
	}
}
