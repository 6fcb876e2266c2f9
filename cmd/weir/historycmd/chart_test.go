package historycmd

import (
	"math"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history/query"
)

func TestTheSameTrafficIsDrawnEquallyHighInBucketsOfAllWidths(t *testing.T) {
	const perMinute = 30
	from := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Unix()
	to := time.Date(2026, 11, 21, 12, 34, 0, 0, time.UTC).Unix()
	var points []query.PointAnswer
	for at := from; at < to; {
		width := int64(60)
		switch age := to - at; {
		case age > 10*86400:
			width = 86400
		case age > 7*86400:
			width = 3600
		case age > 86400:
			width = 300
		}
		points = append(points, query.PointAnswer{Start: at, Width: width, Sum: uint64(perMinute * width / 60)})
		at += width
	}
	for width := range 300 {
		c := newChart(from, to, points, width)
		if len(c.rates) > max(width-chartMargin-1, minColumns) {
			t.Fatalf("%d columns on a terminal of %d: lines would wrap", len(c.rates), width)
		}
		for i, r := range c.rates {
			if math.Abs(r*60-perMinute) > 0.001 {
				t.Fatalf("on %d columns, column %d of %d shows %.3f a minute, want %d: a border between tiers must not look like "+
					"a change of traffic", width, i, len(c.rates), r*60, perMinute)
			}
		}
	}
}

func TestEveryHitIsInTheCurve(t *testing.T) {
	points := []query.PointAnswer{{Start: 300, Width: 300, Sum: 50}, {Start: 660, Width: 60, Sum: 7}, {Start: 720, Width: 60, Sum: 1},
		{Start: 3600, Width: 3600, Sum: 120}}
	for width := range 200 {
		c := newChart(300, 7200, points, width)
		var hits float64
		for i, r := range c.rates {
			begin, end := c.span(i)
			hits += r * (end - begin)
		}
		if math.Abs(hits-178) > 0.001 {
			t.Fatalf("a curve of %d columns holds %.3f hits of 178", width, hits)
		}
	}
}

func TestRatesAreSaidInUnitsThatPeopleRead(t *testing.T) {
	for _, c := range []struct {
		perSecond float64
		want      string
	}{
		{2, "120/min"}, {0.1, "6/min"}, {0.07, "4.2/min"}, {9.99 / 60, "10/min"}, {1234567. / 60, "1.23M/min"},
		{99999. / 60, "99,999/min"}, {99999.6 / 60, "100k/min"}, {999_499. / 60, "999k/min"}, {999_501. / 60, "1M/min"}, {1. / 120, "30/h"}, {1. / 7200, "12/day"}, {1. / 864000, "0.1/day"},
	} {
		if got := describeRate(c.perSecond); got != c.want {
			t.Errorf("%v a second is shown as %q, want %q", c.perSecond, got, c.want)
		}
	}
}
