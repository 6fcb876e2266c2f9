package hits

import (
	"maps"
	"sync"
	"sync/atomic"

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

// counter returns where a descriptor's hits are counted. The first values, at most so many, have one each. Finding a
// known value takes no lock and no allocation.
func (v *values) counter(r *descriptors.Rule, d descriptors.Descriptor, most int) *Counter {
	length := 0
	for _, entry := range r.Values {
		length += len(d[entry].Key) + len(d[entry].Value) + len("=,")
	}
	if length-1 > maxValue {
		return &v.other
	}
	var room [maxValue]byte
	text := r.AppendValue(room[:0], d)
	if c, known := v.find(text, most); known {
		return c
	}
	if len(text) > maxValue {
		return &v.other
	}
	var tally *Tally
	if v.other.tally != nil {
		tally = &Tally{name: r.Metric(d, "")}
	}
	return v.add(string(text), tally, most)
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

// add makes a counter for a value, if there is none yet, with a tally for its hits, or nil.
func (v *values) add(text string, tally *Tally, most int) *Counter {
	v.adding.Lock()
	defer v.adding.Unlock()
	if c, known := v.find([]byte(text), most); known {
		return c
	}
	grown := make(map[string]*Counter)
	if all := v.known.Load(); all != nil {
		maps.Copy(grown, *all)
	}
	c := &Counter{tally: tally}
	grown[text] = c
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
