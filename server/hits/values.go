package hits

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// maxValue is how long a value may be, in bytes, to be counted by itself: it becomes part of the name of a series of
// the history.
const maxValue = 256

// values are the counters of a rule that tells values apart.
type values struct {
	known  atomic.Pointer[map[string]*Counter] // replaced by a larger one when a value is added
	other  Counter                             // of values that came too late, or are too long
	adding sync.Mutex
}

// valueCounter returns where the hits of a descriptor are counted by its value. The first values, at most so many,
// have a counter each. Finding a known value takes no lock and no allocation.
func (r *Recorder) valueCounter(of *ruleHits, rule *descriptors.Rule, d descriptors.Descriptor) *Counter {
	v := of.values.Load()
	if v == nil {
		first := new(values)
		first.other.ratelimit = r.ratelimit.of(rule.Metric(nil, history.OtherValue))
		of.values.CompareAndSwap(nil, first)
		v = of.values.Load()
	}
	length := 0
	for _, entry := range rule.Values {
		length += len(d[entry].Key) + len(d[entry].Value) + len("=,")
	}
	if length-1 > maxValue {
		return &v.other
	}
	var room [maxValue]byte
	text := rule.AppendValue(room[:0], d)
	if c, known := v.find(text, r.maxValues); known {
		return c
	}
	if len(text) > maxValue {
		return &v.other
	}
	return v.add(text, &Counter{ratelimit: r.ratelimit.of(rule.Metric(d, ""))}, r.maxValues)
}

// find returns the counter of a value, and reports whether that is final: the value is known, or comes too late.
func (v *values) find(text []byte, most int) (c *Counter, known bool) {
	all := v.known.Load()
	if all == nil {
		return nil, false
	}
	if c := (*all)[string(text)]; c != nil {
		return c, true
	}
	return &v.other, len(*all) >= most
}

// add lets a value have a counter, if it has none yet.
func (v *values) add(text []byte, c *Counter, most int) *Counter {
	v.adding.Lock()
	defer v.adding.Unlock()
	if before, known := v.find(text, most); known {
		return before
	}
	grown := map[string]*Counter{string(text): c}
	if all := v.known.Load(); all != nil {
		maps.Copy(grown, *all)
	}
	v.known.Store(&grown)
	return c
}

// each calls do with the counters that there are, and their values; those of all other values have "". Nil has none.
func (v *values) each(do func(value string, c *Counter)) {
	if v == nil {
		return
	}
	if all := v.known.Load(); all != nil {
		for value, c := range *all {
			do(value, c)
		}
	}
	do("", &v.other)
}
