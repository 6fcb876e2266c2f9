package engine

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// selection collects the series of a selector.
type selection struct {
	*querier
	matchers  labels.Selector
	namesOnly bool // no samples are wanted
	hints     *storage.SelectHints
	from, to  int64 // Unix seconds, both included
	// Intervals at which samples are repeated while nothing changes, in milliseconds.
	repeatCounter, repeatGauge int64

	found   []*series
	scratch []history.Sample
}

// newSelection returns an empty selection.
func (q *querier) newSelection(hints *storage.SelectHints, matchers labels.Selector) *selection {
	half := q.lookback.Milliseconds() / 2
	s := &selection{querier: q, matchers: matchers, namesOnly: hints.Func == "series", hints: hints,
		from: max(floor(hints.Start), 0), to: min(floor(hints.End)+1, q.now+staleAfter/1000), repeatCounter: half, repeatGauge: half}
	if hints.Range > 0 { // so that each window over a gauge has a sample
		s.repeatGauge = min(max(hints.Range, 1000), half)
	}
	return s
}

// ceil returns the least multiple of a step that is not less than n.
func ceil(n, step int64) int64 {
	if n%step > 0 {
		n += step
	}
	return n - n%step
}

// floor returns the second of a moment in milliseconds.
func floor(millis int64) int64 { return ceil(millis-999, 1000) / 1000 }

// readHits reads the series of hits.
func (s *selection) readHits(ctx context.Context) error {
	query, possible := queryFor(s.matchers)
	if !possible || s.from > s.to && !s.namesOnly {
		return nil
	}
	query.From, query.To = s.from, math.MaxInt64
	if s.namesOnly {
		query.To = query.From // nothing but names is read
	}
	if err := s.readStore(ctx, query, s.add); err != nil || len(s.found) > 0 || query.Path == nil && query.Value == nil {
		return err
	}
	return s.readReadable(ctx, query)
}

// readReadable reads for a query whose paths and values are in their readable form. It first looks for the stored
// names.
func (s *selection) readReadable(ctx context.Context, query history.Query) error {
	names := query
	names.Path, names.Value, names.To = nil, nil, names.From // nothing but names is read
	stored := make(map[[2]string]bool)
	err := s.readStore(ctx, names, func(one history.Series) error {
		if matches(s.matchers, counterLabels(one.ID)) || matches(s.matchers, peakLabels(one.ID)) {
			stored[[2]string{one.ID.Path, one.ID.Value}] = true
		}
		return nil
	})
	for name := range stored {
		if err == nil {
			query.Path, query.Value = &name[0], &name[1]
			err = s.readStore(ctx, query, s.add)
		}
	}
	return err
}

// matches reports whether labels fit all matchers. A path or value may be spelled as stored or as shown; a matcher may
// name the outcome over by another name, alone or as an alternative.
func matches(matchers labels.Selector, l labels.Labels) bool {
	for _, m := range matchers {
		text, wants := l.Get(m.Name), m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp
		fits := m.Matches(text)
		switch m.Name {
		case pathLabel, valueLabel:
			if shown := m.Matches(descriptors.ReadablePath(text)); wants {
				fits = fits || shown
			} else {
				fits = fits && shown
			}
		case outcomeLabel:
			if text == history.Over.String() && (namesOver(m.Value) || slices.ContainsFunc(m.SetMatches(), namesOver)) {
				fits = wants
			}
		}
		if !fits {
			return false
		}
	}
	return true
}

// namesOver reports whether a text is a name of the outcome over.
func namesOver(text string) bool {
	o, err := history.ParseOutcome(text)
	return err == nil && o == history.Over
}

// add adds the selected samples of a stored series.
func (s *selection) add(one history.Series) error {
	counter, peak := counterLabels(one.ID), peakLabels(one.ID)
	wantsCounter, wantsPeak := matches(s.matchers, counter), matches(s.matchers, peak)
	if !one.Unnamed && !wantsCounter && !wantsPeak {
		return nil
	}
	if one.Err == nil && !s.namesOnly && one.Stored() > one.Lifetime {
		one.Err = errors.New("more is stored of it than it ever counted")
	}
	if one.Err != nil {
		s.damaged.Add(&one)
		return nil
	}
	for _, p := range one.Points {
		if p.Start*1000 <= s.hints.End && p.End()*1000 >= s.hints.Start {
			s.coarsest = max(s.coarsest, p.Tier)
		}
	}
	if s.lookbackTooShort() {
		return errShortLookback
	}
	if wantsCounter {
		s.scratch = s.appendTotals(s.scratch[:0], &one)
		if err := s.addSeries(counter, false, s.repeatCounter); err != nil {
			return err
		}
	}
	if wantsPeak {
		s.scratch = s.appendPeaks(s.scratch[:0], &one)
		return s.addSeries(peak, true, s.repeatGauge)
	}
	return nil
}

// appendTotals appends the counts of a series in the selected time, and just around it.
func (s *selection) appendTotals(dst []history.Sample, one *history.Series) []history.Sample {
	first := s.now
	if len(one.Points) > 0 {
		first = one.Points[0].Start
	}
	if before := one.Lifetime - one.Stored(); before > 0 && s.from < first {
		dst = append(dst, history.Sample{At: s.from, Total: before})
	}
	return s.extendToNow(one.AppendSamples(dst, s.now))
}

// appendPeaks appends the largest minute of each bucket at its beginning, and 0 at its end if no bucket follows.
// Windows exclude their beginning and include their end. For them the samples are a second inside both ends of the
// bucket, so that a window sees exactly the buckets that it overlaps.
func (s *selection) appendPeaks(dst []history.Sample, one *history.Series) []history.Sample {
	inside := int64(0)
	if s.hints.Range > 0 {
		inside = 1
	}
	emptySince := int64(-1) // the end of the bucket before, -1 for none
	if one.Lifetime > one.Stored() {
		emptySince = s.from
	}
	appendBucket := func(from, to int64, peak uint64) {
		dst = append(dst, history.Sample{At: from + inside, Total: peak})
		if last := min(to-inside, s.now); inside > 0 && last > from+inside {
			dst = append(dst, history.Sample{At: last, Total: peak})
		}
	}
	for _, p := range one.Points {
		if emptySince >= 0 && emptySince < p.Start {
			appendBucket(emptySince, p.Start, 0)
		}
		appendBucket(p.Start, p.End(), p.Peak)
		emptySince = p.End()
	}
	if emptySince >= 0 && emptySince+inside < s.now {
		dst = append(dst, history.Sample{At: emptySince + inside})
	}
	return s.extendToNow(dst)
}

// extendToNow appends the last sample once more, at now.
func (s *selection) extendToNow(samples []history.Sample) []history.Sample {
	if n := len(samples); n > 0 && samples[n-1].At < s.now {
		samples = append(samples, history.Sample{At: s.now, Total: samples[n-1].Total})
	}
	return samples
}

// addSeries adds the selected samples of scratch as a series, if there are any.
func (s *selection) addSeries(name labels.Labels, stepwise bool, repeat int64) error {
	samples, complete := s.scratch, true
	for len(samples) > 1 && samples[1].At <= s.from {
		samples = samples[1:]
	}
	for n := len(samples); n > 1 && samples[n-2].At >= s.to; n-- {
		samples, complete = samples[:n-1], false
	}
	if s.namesOnly {
		samples = nil
	} else if len(samples) == 0 || samples[0].At > s.to {
		return nil
	}
	if err := s.spend(len(samples) + s.growth.cost(nameCost(name))); err != nil {
		return err
	}
	s.found = append(s.found, &series{labels: name, samples: slices.Clone(samples), stepwise: stepwise, repeat: repeat,
		complete: complete})
	return nil
}

// addLimits adds the limits of the rules in force, at every moment up to now, with the labels of /metrics. Limits of a
// rule with the same text are one series.
func (s *selection) addLimits() error {
	for _, rule := range s.config.Rules() {
		seen := make(map[string]bool, len(rule.Limits))
		for _, l := range rule.Limits {
			text := l.String()
			name := labels.FromStrings(nameLabel, LimitRequests, domainLabel, rule.Domain, limitLabel, text,
				pathLabel, rule.Path).WithoutEmpty()
			if seen[text] || !matches(s.matchers, name) {
				continue
			}
			seen[text] = true
			s.scratch = s.extendToNow(append(s.scratch[:0], history.Sample{At: min(s.from, s.now), Total: l.Requests}))
			if err := s.addSeries(name, true, s.repeatGauge); err != nil {
				return err
			}
		}
	}
	return nil
}
