package window

import (
	"encoding/binary"
	"iter"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// Cells is the [State] of all algorithms except the token bucket. It has a cell for each bucket of the finest level
// with hits, oldest first, and the sum of the hits. A fixed window has one bucket, as wide as the window, that stops
// counting when it ends; a log has buckets of a microsecond. Reading and adding cost amortised constant time.
type Cells struct {
	window    time.Duration
	sum       uint64
	cells     []cell
	precision uint32 // in milliseconds; 0 except for a sliding window
	algorithm descriptors.Algorithm
}

func newCells(a descriptors.Algorithm, window, precision time.Duration) *Cells {
	return &Cells{window: window, algorithm: a, precision: uint32(precision / time.Millisecond)}
}

type cell struct {
	bucket int64
	hits   uint64
}

// Matches implements [State].
func (s *Cells) Matches(l *descriptors.Limit) bool {
	return s.window == l.Window && s.algorithm == l.Algorithm && s.precision == uint32(l.Precision/time.Millisecond)
}

// SetRate implements [State]. It does nothing, as hits leave with their buckets.
func (s *Cells) SetRate(*descriptors.Limit, Instant) {}

func (s *Cells) width() Instant {
	switch s.algorithm {
	case descriptors.FixedWindow:
		return micros(s.window)
	case descriptors.SlidingLog:
		return 1
	}
	return Instant(s.precision) * 1000
}

// expiryOf returns when a bucket stops counting: a window and a precision after its beginning, as its hits may have come
// at its end.
func (s *Cells) expiryOf(bucket int64) Instant {
	return Instant(bucket)*s.width() + micros(s.window) + Instant(s.precision)*1000
}

// Sum returns the number of hits that count at now.
func (s *Cells) Sum(now Instant) uint64 {
	if s.sum == 0 {
		return 0
	}
	s.fold(now.index(s.width()))
	if newest := s.cells[len(s.cells)-1]; s.expiryOf(newest.bucket) <= now {
		s.clear()
		return 0
	}
	for s.expiryOf(s.cells[0].bucket) <= now {
		s.sum -= s.cells[0].hits
		s.cells = s.cells[1:]
	}
	return s.sum
}

// fold moves the hits of later buckets into the live one, after the clock stepped back.
func (s *Cells) fold(live int64) {
	var later uint64
	for len(s.cells) > 0 && s.cells[len(s.cells)-1].bucket > live {
		later += s.cells[len(s.cells)-1].hits
		s.cells = s.cells[:len(s.cells)-1]
	}
	if later > 0 {
		s.push(live, later)
	}
}

// push adds hits to a bucket, which must not be before the last cell.
func (s *Cells) push(bucket int64, hits uint64) {
	if n := len(s.cells); n > 0 && s.cells[n-1].bucket == bucket {
		s.cells[n-1].hits += hits
		return
	}
	s.cells = append(s.cells, cell{bucket, hits})
}

func (s *Cells) clear() { s.sum, s.cells = 0, s.cells[:0] }

// Add counts delta hits at now, up to MaxCount in all. A negative delta removes the newest hits, at most all of them.
func (s *Cells) Add(now Instant, delta int64) {
	sum := s.Sum(now)
	if delta < 0 {
		s.removeNewest(uint64(-delta))
		return
	}
	if hits := min(uint64(delta), MaxCount-sum); hits > 0 {
		s.push(now.index(s.width()), hits)
		s.sum += hits
	}
}

// removeNewest removes the newest hits, at most all.
func (s *Cells) removeNewest(hits uint64) {
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

// Until implements [State].
func (s *Cells) Until(now Instant, most uint64) Instant {
	left := s.Sum(now)
	if left <= most {
		return now
	}
	i := 0
	for left -= s.cells[i].hits; left > most; left -= s.cells[i].hits {
		i++
	}
	return s.expiryOf(s.cells[i].bucket)
}

// Expires implements [State].
func (s *Cells) Expires() Instant {
	if s.sum == 0 {
		return 0
	}
	return s.expiryOf(s.cells[len(s.cells)-1].bucket)
}

// Buckets yields the beginning and the hits of each bucket that counts at now, oldest first. After the clock stepped
// back, it yields hits of later buckets in now's bucket, possibly several times. It changes nothing.
func (s *Cells) Buckets(now Instant) iter.Seq2[Instant, uint64] {
	return func(yield func(Instant, uint64) bool) {
		live := now.index(s.width())
		for _, c := range s.cells {
			if s.expiryOf(c.bucket) > now && !yield(Instant(min(c.bucket, live))*s.width(), c.hits) {
				return
			}
		}
	}
}

// Append implements [State]. It appends the algorithm, window and precision, then the cells: each bucket as the
// difference from the last one, and its hits.
func (s *Cells) Append(dst []byte) []byte {
	dst = appendIdentity(dst, s.algorithm, s.window, time.Duration(s.precision)*time.Millisecond)
	dst = binary.AppendUvarint(dst, uint64(len(s.cells)))
	var last int64
	for _, c := range s.cells {
		dst = binary.AppendVarint(dst, c.bucket-last)
		dst = binary.AppendUvarint(dst, c.hits)
		last = c.bucket
	}
	return dst
}

// cells reads the cells into an empty s; false if they are invalid.
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
