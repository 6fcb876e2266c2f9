package simulatecmd

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/cmd/weir/historycmd"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	historyapi "github.com/weirproxy/weir/server/history"
)

// past is traffic made of a rule's hits in the history. The history does not have the moments of hits within a minute,
// the minutes of downsampled buckets except the largest one, and the callers except separate values. These are
// generated, evenly distributed.
type past struct {
	domain  string
	hits    int64
	minutes []pastMinute
	random  *rand.Rand
}

// pastMinute has the hits of a series in a minute, in Unix seconds.
type pastMinute struct {
	at      int64
	hits    uint64
	callers [][]descriptors.Descriptor // with equal shares of the hits
}

// readPast reads the history of the rule of the flags. callers is the number of callers for each value of the history.
func readPast(ctx context.Context, flags *historycmd.RuleFlags, out *terminal.Output, callers int, random *rand.Rand) (*past, error) {
	answer, err := flags.Read(ctx, out)
	if err != nil {
		return nil, err
	}
	p := &past{domain: answer.Series[0].Domain, random: random}
	for _, s := range answer.Series {
		p.hits += int64(s.Total)
	}
	if p.hits > maxRequests {
		return nil, fmt.Errorf("the rule has %s hits in this range, and at most %s are simulated: give a later --from", terminal.Thousands(uint64(p.hits)),
			terminal.Thousands(maxRequests))
	}
	for _, s := range answer.Series {
		who := make([][]descriptors.Descriptor, callers)
		for i := range who {
			who[i] = []descriptors.Descriptor{descriptorOf(s.Path, s.Value, fmt.Sprintf("made-up-%d", i+1))}
		}
		for _, point := range s.Points {
			p.spread(&point, who)
		}
	}
	return p, nil
}

// descriptorOf returns a descriptor that matches a rule's path, with a value of its history, and madeUp for any other
// open value.
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

// spread distributes the hits of a bucket over its minutes: one gets the largest known minute, the others equal parts
// of the rest, give or take 1.
func (p *past) spread(b *historyapi.PointAnswer, callers [][]descriptors.Descriptor) {
	order := p.random.Perm(int(max(b.Width/60, 1)))
	minutes := uint64(len(order))
	hits := max(min(b.Peak, b.Sum), (b.Sum+minutes-1)/minutes) // late hits, of which no peak is known, may have filled it
	left := b.Sum
	for i, minute := range order {
		if i > 0 {
			others := minutes - uint64(i)
			hits = (left + others - 1) / others
		}
		left -= hits
		p.minutes = append(p.minutes, pastMinute{b.Start + int64(minute)*60, hits, callers})
	}
}

// traffic yields the arrivals, minute by minute.
func (p *past) traffic(yield func(request) error) error {
	slices.SortStableFunc(p.minutes, func(a, b pastMinute) int { return cmp.Compare(a.at, b.at) })
	var all []request // of a minute
	for i, m := range p.minutes {
		for range m.hits {
			all = append(all, request{at: time.UnixMicro(m.at*1e6 + p.random.Int64N(60e6)), domain: p.domain,
				descriptors: m.callers[p.random.IntN(len(m.callers))]})
		}
		if i+1 < len(p.minutes) && p.minutes[i+1].at == m.at {
			continue
		}
		slices.SortFunc(all, func(a, b request) int { return a.at.Compare(b.at) })
		for _, r := range all {
			if err := yield(r); err != nil {
				return err
			}
		}
		all = all[:0]
	}
	return nil
}
