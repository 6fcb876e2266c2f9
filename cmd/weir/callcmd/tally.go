package callcmd

import (
	"math"
	"math/bits"
	"time"

	"google.golang.org/grpc/status"
)

// tally adds up many calls, however many. It is not for concurrent use.
type tally struct {
	outcomes
	unsent   uint64 // due, but all workers were waiting for answers
	degraded uint64 // answers that the store did not decide, or not all of
	shadowed uint64 // answers that would be refusals but for shadow mode
	changes  uint64 // from OK to over or back
	errors   map[string]*failure
	latency  histogram // of answered calls
	timeline timeline
}

// failure is what one gRPC code stands for among many calls.
type failure struct {
	Count   uint64 `json:"count"`
	Message string `json:"message"` // the first one
}

type outcomes struct {
	OK     uint64 `json:"ok"`
	Over   uint64 `json:"over"`
	Failed uint64 `json:"errors"`
}

func (c *outcomes) sent() uint64 { return c.OK + c.Over + c.Failed }

func (c *outcomes) count(o *outcome) {
	switch {
	case o.err != nil:
		c.Failed++
	case o.over():
		c.Over++
	default:
		c.OK++
	}
}

// add counts an outcome that came at an offset from the start.
func (t *tally) add(at time.Duration, o *outcome) {
	t.count(o)
	t.timeline.at(at).count(o)
	if o.err != nil {
		t.addError(o.err)
	} else {
		t.latency.add(o.latency)
		if len(degradations(o)) > 0 {
			t.degraded++
		}
		if o.said("shadow_denied") != nil {
			t.shadowed++
		}
	}
}

func (t *tally) addError(err error) {
	s := status.Convert(err)
	code := s.Code().String()
	if t.errors[code] == nil {
		message, _ := dialFailure(s.Message())
		t.errors[code] = &failure{Message: message}
	}
	t.errors[code].Count++
}

// histogram counts durations in 64 buckets for each doubling, so a percentile is at most 1/64 (1.6 %) too high.
type histogram struct {
	counts [64 * 64]uint64
	total  uint64
	max    time.Duration
}

const subBits = 6 // of a duration, this many bits below the highest tell its bucket

func (h *histogram) add(d time.Duration) {
	d = max(0, d)
	h.counts[bucketOf(uint64(d))]++
	h.total++
	h.max = max(h.max, d)
}

// bucketOf returns the number of the bucket of v: its own below 64, and above one for each doubling and its next 6 bits.
func bucketOf(v uint64) int {
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - subBits
	return (shift+1)<<subBits + int(v>>shift) - 1<<subBits
}

func topOf(bucket int) uint64 {
	if bucket < 1<<subBits {
		return uint64(bucket)
	}
	shift := bucket>>subBits - 1
	return (uint64(bucket&(1<<subBits-1))+1<<subBits+1)<<shift - 1
}

// quantile returns the duration that a part q of all (0 to 1) do not exceed; 0 if there are none.
func (h *histogram) quantile(q float64) time.Duration {
	want := max(1, uint64(math.Ceil(q*float64(h.total))))
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= want {
			return min(h.max, time.Duration(topOf(i)))
		}
	}
	return h.max
}

// timeline counts outcomes in columns of equal width. When it is full, neighbours are joined and the width doubles.
type timeline struct {
	columns [60]outcomes
	used    int
	width   time.Duration // 0 before the first outcome
}

// at returns the column of an offset from the start. It stays valid until the next call.
func (l *timeline) at(offset time.Duration) *outcomes {
	l.width = max(l.width, time.Second)
	for offset >= l.width*time.Duration(len(l.columns)) {
		l.join()
	}
	i := int(offset / l.width)
	l.used = max(l.used, i+1)
	return &l.columns[i]
}

func (l *timeline) join() {
	half := len(l.columns) / 2
	for i := range half {
		a, b := l.columns[2*i], l.columns[2*i+1]
		l.columns[i] = outcomes{a.OK + b.OK, a.Over + b.Over, a.Failed + b.Failed}
	}
	clear(l.columns[half:])
	l.used = (l.used + 1) / 2
	l.width *= 2
}
