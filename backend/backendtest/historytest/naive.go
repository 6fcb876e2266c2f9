package historytest

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// naive is the oracle. It keeps every minute of every series forever, and beside each minute only how far its hits have
// been moved. It knows calendars from package time and nothing of the chunks of package history.
type naive struct {
	keep   history.Retention
	series map[history.ID]*naiveSeries
}

type naiveSeries struct {
	lifetime, expired uint64
	// minutes are, for each tier, what its buckets have from each minute.
	minutes [history.Tiers]map[int64]tally
}

// tally is hits of one minute. Its peak is the largest number of them that was moved at once, of minutes all of them.
type tally struct{ sum, peak uint64 }

func newNaive(keep history.Retention) *naive {
	return &naive{keep: keep, series: make(map[history.ID]*naiveSeries)}
}

// apply counts increments, those ahead of the clock in its minute.
func (n *naive) apply(increments []history.Increment, now time.Time) {
	for _, i := range increments {
		s := n.series[i.ID]
		if s == nil {
			s = &naiveSeries{}
			for t := range s.minutes {
				s.minutes[t] = make(map[int64]tally)
			}
			n.series[i.ID] = s
		}
		minute := min(i.Minute, now.Unix()/60)
		s.lifetime += i.Hits
		there := s.minutes[i.Tier][minute]
		sum, peak := there.sum+i.Hits, max(there.peak, i.Peak)
		if i.Tier == history.Minutes {
			peak = sum
		}
		s.minutes[i.Tier][minute] = tally{sum, peak}
	}
}

var naiveWidths = [history.Tiers]int64{60, 300, 3600, 86400}

// floor returns the start of the bucket of a tier that holds a minute. Minutes are never before 1970.
func floor(t history.Tier, minute int64) int64 { return minute * 60 / naiveWidths[t] * naiveWidths[t] }

// due returns when a minute's hits leave a tier, in Unix seconds, and which chunk they leave it with.
func (n *naive) due(t history.Tier, minute int64) (chunk, when int64) {
	at := time.Unix(minute*60, 0).UTC()
	age := int64(n.keep.Ages[t].Seconds())
	var from, to time.Time
	switch t {
	case history.Minutes:
		from = at.Truncate(time.Hour)
		to = from.Add(time.Hour)
	case history.FiveMinutes:
		from = time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
		to = from.AddDate(0, 0, 1)
	case history.Hours:
		sinceMonday := (int(at.Weekday()) + 6) % 7
		from = time.Date(at.Year(), at.Month(), at.Day()-sinceMonday, 0, 0, 0, 0, time.UTC)
		to = from.AddDate(0, 0, 7)
	default:
		from = time.Date(at.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
		to = time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, time.UTC) // days leave one by one
	}
	return from.Unix(), to.Unix() + age
}

// span is the time of a chunk or a bucket of a tier.
type span struct {
	tier  history.Tier
	start int64
}

// downsample moves all that is due, as far as it goes, and returns what it did.
func (n *naive) downsample(now int64) history.DownsampleResult {
	var all history.DownsampleResult
	for id, s := range n.series {
		one := n.downsampleSeries(s, now)
		if history.IsPersonal(id.Value) && one.Expired > 0 && s.expired == s.lifetime {
			delete(n.series, id)
		}
		all.Add(one)
	}
	return all
}

func (n *naive) downsampleSeries(s *naiveSeries, now int64) history.DownsampleResult {
	var did history.DownsampleResult
	chunks, points := make(map[span]bool), make(map[span]bool)
	for t := history.Minutes; t <= history.Days; t++ {
		for minute, hits := range s.minutes[t] {
			chunk, when := n.due(t, minute)
			if when > now {
				continue
			}
			delete(s.minutes[t], minute)
			chunks[span{t, chunk}], points[span{t, floor(t, minute)}] = true, true
			if t == history.Days {
				s.expired += hits.sum
				did.Expired += hits.sum
				continue
			}
			there := s.minutes[t+1][minute]
			s.minutes[t+1][minute] = tally{there.sum + hits.sum, max(there.peak, hits.peak)}
		}
	}
	did.Chunks, did.Points = uint64(len(chunks)), uint64(len(points))
	did.Series = min(did.Chunks, 1)
	return did
}

// query returns what a store should answer.
func (n *naive) query(q history.Query) map[history.ID]history.Series {
	got := make(map[history.ID]history.Series)
	for id, s := range n.series {
		if q.Matches(id) {
			got[id] = history.Series{ID: id, Lifetime: s.lifetime, Expired: s.expired, Points: s.points(q.From, q.To),
				Fine: len(s.minutes[history.Minutes])+len(s.minutes[history.FiveMinutes])+len(s.minutes[history.Hours]) > 0}
		}
	}
	return got
}

// points returns the buckets that overlap a range. Where a bucket of a coarser tier is stored, what is stored of finer
// ones inside it belongs to it.
func (s *naiveSeries) points(from, to int64) []history.Point {
	stored := make(map[span]bool)
	for t := history.Minutes; t <= history.Days; t++ {
		for minute := range s.minutes[t] {
			stored[span{t, floor(t, minute)}] = true
		}
	}
	found := make(map[span]history.Point)
	for t := history.Minutes; t <= history.Days; t++ {
		for minute, hits := range s.minutes[t] {
			home := span{t, floor(t, minute)}
			for coarser := t + 1; coarser <= history.Days; coarser++ {
				if c := (span{coarser, floor(coarser, minute)}); stored[c] {
					home = c
				}
			}
			if from >= to || home.start >= to || home.start+naiveWidths[home.tier] <= from {
				continue
			}
			p := found[home]
			found[home] = history.Point{Start: home.start, Tier: home.tier, Sum: p.Sum + hits.sum, Peak: max(p.Peak, hits.peak)}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b history.Point) int { return cmp.Compare(a.Start, b.Start) })
}

// sums returns all hits that lie in each of some points, however the oracle keeps them.
func (s *naiveSeries) sums(points []history.Point) []uint64 {
	out := make([]uint64, len(points))
	for t := range s.minutes {
		for minute, hits := range s.minutes[t] {
			after := sort.Search(len(points), func(i int) bool { return points[i].Start > minute*60 })
			if after > 0 && minute*60 < points[after-1].End() {
				out[after-1] += hits.sum
			}
		}
	}
	return out
}
