package window

import (
	"encoding/binary"
	"iter"
	"math"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// Cells counts the hits of one limit of one key on the finest level only, with a running sum: a cell for each bucket
// that holds hits, oldest first. It drops what has left and returns the sum. A fixed window is the case of one bucket
// as wide as the window that stops counting when it ends; a log is that of a cell for each microsecond in which
// something was counted. Reading and adding cost amortised constant time. It is the [State] of all algorithms but the
// token bucket.
type Cells struct {
	window time.Duration
	sum    uint64
	cells  []cell // when the slice is full, the room in front of head is used again if it is a quarter or more
	head   uint32 // cells before it have left
	bucket resolution
}

// resolution is how wide buckets are: the precision of a sliding window in milliseconds, or one of two words for the
// other algorithms. It says in four bytes what an algorithm and a precision say, as a store holds a Cells for each of
// its keys.
type resolution uint32

const (
	wholeWindow  resolution = math.MaxUint32     // a fixed window is one bucket
	microseconds resolution = math.MaxUint32 - 1 // a log has a bucket for each microsecond
)

// resolutionOf returns 0 for what no Cells counts.
func resolutionOf(a descriptors.Algorithm, precision time.Duration) resolution {
	switch a {
	case descriptors.FixedWindow:
		return wholeWindow
	case descriptors.SlidingLog:
		return microseconds
	}
	return resolution(precision / time.Millisecond)
}

// identity returns the algorithm and the precision.
func (b resolution) identity() (descriptors.Algorithm, time.Duration) {
	switch b {
	case wholeWindow:
		return descriptors.FixedWindow, 0
	case microseconds:
		return descriptors.SlidingLog, 0
	}
	return descriptors.SlidingWindow, time.Duration(b) * time.Millisecond
}

type cell struct {
	bucket int64
	hits   uint64
}

// Matches implements [State].
func (s *Cells) Matches(l *descriptors.Limit) bool {
	return s.window == l.Window && s.bucket == resolutionOf(l.Algorithm, l.Precision)
}

// SetRate does nothing: hits leave with their bucket, whatever the number of requests.
func (s *Cells) SetRate(*descriptors.Limit, Instant) {}

func (s *Cells) width() Instant {
	switch s.bucket {
	case wholeWindow:
		return micros(s.window)
	case microseconds:
		return 1
	}
	return Instant(s.bucket) * 1000
}

// leaves returns the first moment at which a bucket no longer counts: a window after it began, and where a hit may have
// come at any moment of it, a precision more.
func (s *Cells) leaves(bucket int64) Instant {
	_, precision := s.bucket.identity()
	return Instant(bucket)*s.width() + micros(s.window) + micros(precision)
}

// Sum returns the number of hits that count at now.
func (s *Cells) Sum(now Instant) uint64 {
	if s.sum == 0 {
		return 0
	}
	s.fold(now.index(s.width()))
	if newest := s.cells[len(s.cells)-1]; s.leaves(newest.bucket) <= now {
		s.clear()
		return 0
	}
	for s.leaves(s.cells[s.head].bucket) <= now {
		s.sum -= s.cells[s.head].hits
		s.head++
	}
	return s.sum
}

// fold moves what lies in later buckets into the live one: the clock stepped back.
func (s *Cells) fold(live int64) {
	var later uint64
	for s.Len() > 0 && s.cells[len(s.cells)-1].bucket > live {
		later += s.cells[len(s.cells)-1].hits
		s.cells = s.cells[:len(s.cells)-1]
	}
	if later > 0 {
		s.push(live, later)
	}
}

// push counts hits in a bucket that no cell is later than.
func (s *Cells) push(bucket int64, hits uint64) {
	if n := len(s.cells); n > int(s.head) && s.cells[n-1].bucket == bucket {
		s.cells[n-1].hits += hits
		return
	}
	if len(s.cells) == cap(s.cells) && int(s.head) >= (len(s.cells)+3)/4 && s.head > 0 {
		s.cells = s.cells[:copy(s.cells, s.cells[s.head:])]
		s.head = 0
	}
	s.cells = append(s.cells, cell{bucket, hits})
}

func (s *Cells) clear() { s.sum, s.head, s.cells = 0, 0, s.cells[:0] }

// Add counts delta hits at now, up to MaxCount in all; a negative delta takes back the newest, at most all of them.
func (s *Cells) Add(now Instant, delta int64) {
	sum := s.Sum(now)
	if delta < 0 {
		s.takeBack(uint64(-delta))
		return
	}
	if hits := min(uint64(delta), MaxCount-sum); hits > 0 {
		s.push(now.index(s.width()), hits)
		s.sum += hits
	}
}

func (s *Cells) takeBack(hits uint64) {
	for hits > 0 && s.sum > 0 {
		newest := &s.cells[len(s.cells)-1]
		n := min(hits, newest.hits)
		newest.hits -= n
		s.sum -= n
		hits -= n
		if newest.hits == 0 {
			s.cells = s.cells[:len(s.cells)-1]
		}
	}
	if s.sum == 0 {
		s.clear()
	}
}

// Until returns the first moment, now or later, at which at most keep of the hits that count now still do.
func (s *Cells) Until(now Instant, keep uint64) Instant {
	left := s.Sum(now)
	if left <= keep {
		return now
	}
	i := int(s.head)
	if keep < left/2 { // nearer to the newest
		i = len(s.cells) - 1
		for held := s.cells[i].hits; held <= keep; held += s.cells[i].hits {
			i--
		}
	} else {
		for left -= s.cells[i].hits; left > keep; left -= s.cells[i].hits {
			i++
		}
	}
	return s.leaves(s.cells[i].bucket)
}

// Expires returns the first moment from which nothing in the state counts, 0 if nothing does now.
func (s *Cells) Expires() Instant {
	if s.sum == 0 {
		return 0
	}
	return s.leaves(s.cells[len(s.cells)-1].bucket)
}

// Len returns the number of cells held.
func (s *Cells) Len() int { return len(s.cells) - int(s.head) }

// Buckets yields what counts at now, the oldest bucket first: when it begins, and its hits. Hits of later buckets,
// after a step back of the clock, are yielded in now's bucket, which may then come more than once. It changes nothing.
func (s *Cells) Buckets(now Instant) iter.Seq2[Instant, uint64] {
	return func(yield func(Instant, uint64) bool) {
		live := now.index(s.width())
		for _, c := range s.cells[s.head:] {
			if s.leaves(c.bucket) > now && !yield(Instant(min(c.bucket, live))*s.width(), c.hits) {
				return
			}
		}
	}
}

// Peek implements [State]. It looks at what has left since the last change, and no further.
func (s *Cells) Peek(_ *descriptors.Limit, now Instant) (uint64, time.Duration) {
	hits := s.sum
	for _, c := range s.cells[s.head:] {
		if s.leaves(c.bucket) <= now {
			hits -= c.hits
			continue
		}
		oldest := min(c.bucket, now.index(s.width())) // the clock may have stepped back
		return hits, now.until(s.leaves(oldest))
	}
	return 0, 0
}

// Append writes the identity, then the cells as differences of bucket and count.
func (s *Cells) Append(dst []byte) []byte {
	algorithm, precision := s.bucket.identity()
	dst = appendIdentity(dst, algorithm, s.window, precision)
	dst = binary.AppendUvarint(dst, uint64(s.Len()))
	var last int64
	for _, c := range s.cells[s.head:] {
		dst = binary.AppendVarint(dst, c.bucket-last)
		dst = binary.AppendUvarint(dst, c.hits)
		last = c.bucket
	}
	return dst
}

// cells reads the cells of an empty s, false if they break a rule.
func (r *reader) cells(s *Cells) (*Cells, bool) {
	n := r.uvarint()
	if r.torn || n > uint64(len(r.src))/2 { // a cell has two bytes at least
		return nil, false
	}
	s.cells = make([]cell, n)
	var last int64
	for i := range s.cells {
		c := cell{bucket: last + r.varint(), hits: r.uvarint()}
		if r.torn || c.hits == 0 || c.hits > MaxCount-s.sum || (i > 0 && c.bucket <= last) {
			return nil, false
		}
		s.cells[i], s.sum, last = c, s.sum+c.hits, c.bucket
	}
	return s, true
}
