package engine

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/weirproxy/weir/backend/history"
)

// staleAfter is how long a series keeps its value after its last sample, in milliseconds.
const staleAfter = 5 * 60 * 1000

// series is a series of a metric. It implements [storage.Series]. Between two equal samples a reader sees further ones,
// so that every lookback finds one, but they are not stored.
type series struct {
	labels  labels.Labels
	samples []history.Sample // oldest first
	// stepwise means that a value holds until the next sample; otherwise it is unknown between two different samples.
	stepwise bool
	repeat   int64 // interval of repeated samples, in milliseconds
	complete bool  // the series ends with its last sample
}

func (s *series) Labels() labels.Labels { return s.labels }

func (s *series) Iterator(reuse chunkenc.Iterator) chunkenc.Iterator {
	i, ok := reuse.(*iterator)
	if !ok {
		i = new(iterator)
	}
	*i = iterator{Iterator: chunkenc.NewNopIterator(), series: s, at: math.MinInt64}
	return i
}

// millis is a moment in Unix milliseconds. With this type go vet does not take Seek for io.Seeker's.
type millis = int64

// iterator reads a series. It implements [chunkenc.Iterator].
type iterator struct {
	chunkenc.Iterator // has no histograms, no start times and no errors
	series            *series
	next              int // the first sample after at
	at                millis
}

// moment returns the moment of a sample; after the last one, the end of the series.
func (i *iterator) moment(n int) millis {
	if n < len(i.series.samples) {
		return i.series.samples[n].At * 1000
	}
	if n == len(i.series.samples) && n > 0 && i.series.complete {
		return i.series.samples[n-1].At*1000 + staleAfter
	}
	return math.MaxInt64
}

func (i *iterator) Next() chunkenc.ValueType {
	if i.at == math.MaxInt64 {
		return chunkenc.ValNone
	}
	return i.Seek(i.at + 1)
}

func (i *iterator) Seek(t millis) chunkenc.ValueType {
	if t > i.at {
		i.seek(t)
	}
	if i.at == math.MaxInt64 {
		return chunkenc.ValNone
	}
	return chunkenc.ValFloat
}

// seek goes to the first sample at or after a moment, which is later than the present one.
func (i *iterator) seek(t millis) {
	count := len(i.series.samples)
	if i.moment(i.next) < t {
		i.next += sort.Search(count-min(i.next, count), func(n int) bool { return i.moment(i.next+n) >= t })
		if i.next == count && i.moment(count) < t {
			i.next++
		}
	}
	i.at = i.moment(i.next)
	if i.next > 0 && i.next < count && (i.series.stepwise || i.series.samples[i.next-1].Total == i.series.samples[i.next].Total) {
		i.at = min(i.at, ceil(t, i.series.repeat))
	}
	if i.at == i.moment(i.next) {
		i.next++
	}
}

func (i *iterator) At() (int64, float64) {
	if i.next > len(i.series.samples) {
		return i.at, math.Float64frombits(value.StaleNaN)
	}
	return i.at, float64(i.series.samples[i.next-1].Total)
}

func (i *iterator) AtT() int64 { return i.at }

// set is the result of a selection. It implements [storage.SeriesSet].
type set struct {
	series  []*series
	next    int
	damaged *history.Unreadable // the series left out of the whole query
	err     error
}

// newSet returns a set of series, sorted by labels, or of an error.
func newSet(all []*series, damaged *history.Unreadable, err error) *set {
	slices.SortFunc(all, func(a, b *series) int { return labels.Compare(a.labels, b.labels) })
	return &set{series: all, damaged: damaged, err: err}
}

func (s *set) Next() bool {
	s.next++
	return s.err == nil && s.next <= len(s.series)
}

func (s *set) At() storage.Series { return s.series[s.next-1] }

func (s *set) Err() error { return s.err }

func (s *set) Warnings() annotations.Annotations {
	var all annotations.Annotations
	for _, warning := range s.damaged.Warnings() {
		all.Add(fmt.Errorf("%w: %s", annotations.PromQLWarning, warning))
	}
	return all
}
