package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// selection is a selector's series, as they are read.
type selection struct {
	*run
	matchers []*labels.Matcher
	names    bool  // no samples are asked for
	from, to int64 // Unix seconds, both included
	asked    moments
	every    int64 // how far apart samples of counters are where nothing changes, in milliseconds
	gauges   int64 // and of gauges
	found    []*series
	scratch  []history.Sample
}

// span sets the time that a selection is about.
func (s *selection) span(hints *storage.SelectHints) {
	lookback := s.lookback.Milliseconds()
	asked := selector{}
	if len(s.matchers) > 0 {
		asked = s.selectors[s.matchers[0]]
	}
	s.asked = asked.moments(hints, lookback)
	s.from, s.to = max(floor(hints.Start), 0), min(floor(hints.End)+1, s.now+staleAfter/1000)
	s.every, s.gauges = lookback/2, lookback/2
	if hints.Range > 0 { // so that no window over a gauge is empty
		s.gauges = min(max(hints.Range, 1000), lookback/2)
	}
}

// floor returns the second that a moment in milliseconds is in.
func floor(millis int64) int64 { return ceil(millis-999, 1000) / 1000 }

// readHits reads the series of hits.
func (s *selection) readHits(ctx context.Context) error {
	query, any := queryFor(s.matchers)
	if !any || s.from > s.to && !s.names {
		return nil
	}
	query.From, query.To = s.from, math.MaxInt64
	if s.names {
		query.To = query.From // nothing but names is read
	}
	if err := s.ask(ctx, query, s.add); err != nil || len(s.found) > 0 {
		return err
	}
	return s.noteSpelling(ctx, query)
}

// noteSpelling notes how a path or value is stored, if a query that found nothing spells it as people are shown it.
func (s *selection) noteSpelling(ctx context.Context, query history.Query) error {
	path, value := query.Path, query.Value
	query.Path, query.Value, query.To = nil, nil, query.From // nothing but names is read
	meant := func(stored string, asked *string) bool {
		if asked == nil || *asked == stored || !descriptors.SamePath(stored, *asked) {
			return false
		}
		s.notes.asked, s.notes.stored = *asked, stored
		return true
	}
	if !readable(path) && !readable(value) {
		return nil
	}
	return s.ask(ctx, query, func(one history.Series) error {
		_ = meant(one.ID.Path, path) || meant(one.ID.Value, value)
		return nil
	})
}

// readable reports whether a path or value may be spelt as people are shown it, and not as it is stored.
func readable(name *string) bool { return name != nil && strings.ContainsAny(*name, "/=,%") }

// add adds what is asked for of a stored series.
func (s *selection) add(one history.Series) error {
	total, largest := counter(one.ID), peak(one.ID)
	asksTotal, asksLargest := matches(total, s.matchers), matches(largest, s.matchers)
	if !one.Unnamed && !asksTotal && !asksLargest {
		return nil
	}
	if one.Err == nil && !s.names && one.Stored() > one.Lifetime {
		one.Err = errors.New("more is stored of it than it ever counted")
	}
	if one.Err != nil {
		s.notes.damaged.Add(&one)
		return nil
	}
	for _, p := range one.Points {
		if s.asked.spans(p) {
			s.met = max(s.met, p.Tier)
		}
	}
	if s.tooNarrow() {
		return errTooNarrow
	}
	if asksTotal {
		s.scratch = s.appendTotals(s.scratch[:0], &one)
		if err := s.addSeries(total, false, s.every); err != nil {
			return err
		}
	}
	if asksLargest {
		s.scratch = s.appendPeaks(s.scratch[:0], &one)
		return s.addSeries(largest, true, s.gauges)
	}
	return nil
}

// appendTotals appends the counts of a series in the time that is asked for, and just around it.
func (s *selection) appendTotals(dst []history.Sample, one *history.Series) []history.Sample {
	first := s.now
	if len(one.Points) > 0 {
		first = one.Points[0].Start
	}
	if before := one.Lifetime - one.Stored(); before > 0 && s.from < first {
		dst = append(dst, history.Sample{At: s.from, Total: before})
	}
	return s.upToNow(one.AppendSamples(dst, s.now))
}

// appendPeaks appends the largest minute of each bucket where it begins, and 0 where one ends that no other follows.
// For windows, which have their beginning excluded and their end included, it stands a second inside both ends instead,
// so that each window meets the buckets that it overlaps, and no other.
func (s *selection) appendPeaks(dst []history.Sample, one *history.Series) []history.Sample {
	inside := int64(0)
	if s.asked.back > 0 {
		inside = 1
	}
	empty := int64(-1) // since when there is none
	if one.Lifetime > one.Stored() {
		empty = s.from
	}
	hold := func(from, to int64, largest uint64) {
		dst = append(dst, history.Sample{At: from + inside, Total: largest})
		if last := min(to-inside, s.now); inside > 0 && last > from+inside {
			dst = append(dst, history.Sample{At: last, Total: largest})
		}
	}
	for _, p := range one.Points {
		if empty >= 0 && empty < p.Start {
			hold(empty, p.Start, 0)
		}
		hold(p.Start, p.End(), p.Peak)
		empty = p.End()
	}
	if empty >= 0 && empty+inside < s.now {
		dst = append(dst, history.Sample{At: empty + inside})
	}
	return s.upToNow(dst)
}

// upToNow appends the last sample again as of now.
func (s *selection) upToNow(samples []history.Sample) []history.Sample {
	if n := len(samples); n > 0 && samples[n-1].At < s.now {
		samples = append(samples, history.Sample{At: s.now, Total: samples[n-1].Total})
	}
	return samples
}

// addSeries adds the samples in scratch that are asked for as a series. One without a sample is left out.
func (s *selection) addSeries(name labels.Labels, steps bool, every int64) error {
	samples, ends := s.scratch, true
	for len(samples) > 1 && samples[1].At <= s.from {
		samples = samples[1:]
	}
	for n := len(samples); n > 1 && samples[n-2].At >= s.to; n-- {
		samples, ends = samples[:n-1], false
	}
	if !s.names && (len(samples) == 0 || samples[0].At > s.to) {
		return nil
	}
	if s.names {
		samples = nil
	}
	size := len(samples) + costOf(name) + s.made.cost(int(name.ByteSize()), s.asked.count())
	if s.asked.free {
		size += s.asked.count()
	}
	if err := s.hold(size); err != nil {
		return err
	}
	s.found = append(s.found, &series{labels: name, samples: slices.Clone(samples), steps: steps, every: every, ends: ends})
	return nil
}

// addLimits adds the limits of the rules in force, at every moment up to now, as /metrics has them: those of a rule
// that read alike once.
func (s *selection) addLimits() error {
	if s.config.Rules == nil {
		return nil
	}
	for _, rule := range s.config.Rules() {
		seen := make(map[string]bool, len(rule.Limits))
		for _, l := range rule.Limits {
			text := l.String()
			name := labelsOf(nameLabel, LimitRequests, domainLabel, rule.Domain, limitLabel, text, pathLabel, rule.Path)
			if seen[text] || !matches(name, s.matchers) {
				continue
			}
			seen[text] = true
			s.scratch = s.upToNow(append(s.scratch[:0], history.Sample{At: min(s.from, s.now), Total: l.Requests}))
			if err := s.addSeries(name, true, s.gauges); err != nil {
				return err
			}
		}
	}
	return nil
}
