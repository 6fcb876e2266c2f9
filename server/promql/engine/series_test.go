package engine

import (
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/weirproxy/weir/backend/history"
)

// point is what an iterator shows.
type point struct {
	at int64
	f  float64
}

// Wherever one seeks, one finds what going step by step finds; and what that is, is told by the samples alone.
func TestSeekingFindsTheSameAsStepping(t *testing.T) {
	r := dice(t)
	for range 300 {
		s := series{stepwise: r.IntN(2) == 0, repeat: 1000 * (1 + r.Int64N(50)), complete: r.IntN(2) == 0}
		at, total := r.Int64N(100), uint64(0)
		for range r.IntN(8) {
			s.samples = append(s.samples, history.Sample{At: at, Total: total})
			at += 1 + r.Int64N(200)
			total += r.Uint64N(2) * r.Uint64N(10)
		}
		all := s.naive()
		i := s.Iterator(nil)
		for n, want := range all {
			found := i.Next()
			if at, f := i.At(); found != chunkenc.ValFloat || at != want.at || math.Float64bits(f) != math.Float64bits(want.f) {
				t.Fatalf("%+v: sample %d is %d, %v, want %v", s, n, at, f, want)
			}
		}
		if i.Next() != chunkenc.ValNone || i.Seek(0) != chunkenc.ValNone {
			t.Fatalf("%+v goes on after its end", s)
		}
		i = s.Iterator(i)
		last := int64(math.MinInt64)
		for range 40 {
			to := r.Int64N(2_000_000) - 100_000
			want, found := point{}, false
			for _, p := range all {
				if p.at >= to && p.at >= last {
					want, found = p, true
					break
				}
			}
			if got := i.Seek(to); (got == chunkenc.ValFloat) != found {
				t.Fatalf("%+v, from %d: seeking %d finds something: %v, want %v", s, last, to, got, found)
			}
			if !found {
				break
			}
			f, v := i.At()
			if f != want.at || math.Float64bits(v) != math.Float64bits(want.f) || i.AtT() != f {
				t.Fatalf("%+v, from %d: seeking %d finds %d, %v, want %v", s, last, to, f, v, want)
			}
			last = f
		}
	}
}

// naive returns all samples of a series.
func (s *series) naive() (all []point) {
	for n, sample := range s.samples {
		all = append(all, point{sample.At * 1000, float64(sample.Total)})
		if n+1 == len(s.samples) {
			break
		}
		next := s.samples[n+1]
		for at := sample.At*1000 + 1; at < next.At*1000; at++ {
			if at%s.repeat == 0 && (s.stepwise || sample.Total == next.Total) {
				all = append(all, point{at, float64(sample.Total)})
			}
		}
	}
	if n := len(all); n > 0 && s.complete {
		all = append(all, point{all[n-1].at + staleAfter, math.Float64frombits(value.StaleNaN)})
	}
	return all
}
