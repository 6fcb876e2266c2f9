package simulatecmd

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/history/query"
	"github.com/weirproxy/weir/cmd/weir/historycmd"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
)

// past is a rule's hits of the history, made into arrivals. The history has neither the moments of hits within a minute, nor
// the minutes of what was downsampled but the largest of each bucket, nor callers but the values that it keeps: these are
// made up, evenly.
type past struct {
	domain  string
	callers map[string][][]descriptors.Descriptor // by the value of a series
	minutes map[int64]map[string]uint64           // hits by the minute, in Unix seconds, and by value
	random  *rand.Rand
}

// readPast reads the history of the rule that the flags name. Of a value that the history does not keep there are so many
// callers.
func readPast(ctx context.Context, flags *historycmd.RuleFlags, out *terminal.Output, callers int, random *rand.Rand) (*past, error) {
	series, err := flags.Read(ctx, out)
	if err != nil {
		return nil, err
	}
	p := &past{domain: series[0].Domain, callers: make(map[string][][]descriptors.Descriptor), random: random,
		minutes: make(map[int64]map[string]uint64)}
	for i := range series {
		s := &series[i]
		if p.callers[s.Value] == nil {
			for number := range callers {
				d := descriptorOf(s.Path, s.Value, fmt.Sprintf("made-up-%d", number+1))
				p.callers[s.Value] = append(p.callers[s.Value], []descriptors.Descriptor{d})
			}
		}
		for _, point := range s.Points {
			p.spread(s.Value, &point)
		}
	}
	return p, nil
}

// descriptorOf returns a descriptor that a rule's path stands for, with a value of its history and, for any other value
// that the path leaves open, made up.
func descriptorOf(path, value, madeUp string) (d descriptors.Descriptor) {
	known := make(map[string]string)
	for entry := range strings.SplitSeq(value, ",") {
		key, value, _ := strings.Cut(entry, "=")
		known[key] = value
	}
	for segment := range strings.SplitSeq(path, "/") {
		key, value, _ := strings.Cut(segment, "=")
		if kept := known[key]; kept != "" {
			value = kept
		} else if value == "" {
			value = madeUp
		}
		value = strings.ReplaceAll(descriptors.ReadablePath(value), "*", madeUp)
		d = append(d, descriptors.Entry{Key: descriptors.ReadablePath(key), Value: value})
	}
	return d
}

// spread gives each minute of a bucket its hits: one of them the largest that is known, the others what is left.
func (p *past) spread(value string, b *query.PointAnswer) {
	add := func(minute int64, hits uint64) {
		at := b.Start + minute*60
		if p.minutes[at] == nil {
			p.minutes[at] = make(map[string]uint64)
		}
		p.minutes[at][value] += hits
	}
	minutes, left := max(b.Width/60, 1), b.Sum
	largest := p.random.Int64N(minutes)
	if minutes > 1 && b.Peak > 0 && b.Peak <= left {
		add(largest, b.Peak)
		left -= b.Peak
	}
	for range left {
		minute := p.random.Int64N(minutes)
		if minute == largest && minutes > 1 {
			minute = (minute + 1) % minutes
		}
		add(minute, 1)
	}
}

// traffic makes the arrivals, minute by minute.
func (p *past) traffic(yield func(request) error) error {
	var all []request
	for _, minute := range slices.Sorted(maps.Keys(p.minutes)) {
		all = all[:0]
		for _, value := range slices.Sorted(maps.Keys(p.minutes[minute])) {
			for range p.minutes[minute][value] {
				callers := p.callers[value]
				all = append(all, request{at: time.UnixMicro(minute*1e6 + p.random.Int64N(60e6)), domain: p.domain,
					descriptors: callers[p.random.IntN(len(callers))]})
			}
		}
		slices.SortFunc(all, func(a, b request) int { return a.at.Compare(b.at) })
		for _, r := range all {
			if err := yield(r); err != nil {
				return err
			}
		}
	}
	return nil
}
