package main

import (
	"testing"
	"time"
)

func TestPercentileIsTheNearestRank(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, c := range []struct {
		name   string
		sorted []time.Duration
		q      float64
		want   time.Duration
	}{
		{"none", nil, 0.5, 0},
		{"one is every percentile", []time.Duration{7}, 0.99, 7},
		{"the middle of an odd number", []time.Duration{1, 2, 9}, 0.5, 2},
		{"the lower middle of an even number", []time.Duration{1, 2, 8, 9}, 0.5, 2},
		{"p50 of a hundred", hundred, 0.5, 50},
		{"p99 of a hundred", hundred, 0.99, 99},
		{"the least", hundred, 0, 1},
		{"the greatest", hundred, 1, 100},
	} {
		if got := percentile(c.sorted, c.q); got != c.want {
			t.Errorf("%s: percentile %v is %d, want %d", c.name, c.q, got, c.want)
		}
	}
}

func TestSpreadIsMedianAndBounds(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		want   spread
	}{
		{"none", nil, spread{}},
		{"one", []float64{3}, spread{3, 3, 3}},
		{"an odd number, unsorted", []float64{9, 1, 2}, spread{2, 1, 9}},
		{"an even number", []float64{4, 1, 3, 2}, spread{2.5, 1, 4}},
	} {
		if got := spreadOf(c.values); got != c.want {
			t.Errorf("%s: the spread is %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestSpreadLeavesItsValuesInOrder(t *testing.T) {
	values := []float64{9, 1, 2}
	spreadOf(values)
	if values[0] != 9 {
		t.Errorf("the values became %v: a median must not reorder the rounds it is taken from", values)
	}
}
