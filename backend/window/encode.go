package window

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// errTorn is given for bytes that Append did not write.
var errTorn = errors.New("window: torn state")

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

// Append writes the identity, then the numbers.
func (t *Tokens) Append(dst []byte) []byte {
	dst = appendIdentity(dst, descriptors.TokenBucket, time.Duration(t.window)*time.Microsecond, 0)
	for _, v := range []uint64{t.requests, uint64(t.last), uint64(t.age), t.hits} {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

func appendIdentity(dst []byte, a descriptors.Algorithm, window, precision time.Duration) []byte {
	dst = append(dst, byte(a))
	dst = binary.AppendUvarint(dst, uint64(window))
	return binary.AppendUvarint(dst, uint64(precision))
}

// ReadState reads a state from the front of src and returns what follows it. Bytes that are no state give an error,
// never a state that breaks a rule.
func ReadState(src []byte) (State, []byte, error) {
	if len(src) == 0 {
		return nil, nil, errTorn
	}
	r := reader{src: src[1:]}
	algorithm := descriptors.Algorithm(src[0])
	window, precision := time.Duration(r.uvarint()), time.Duration(r.uvarint())
	if r.torn || !sound(algorithm, window, precision) {
		return nil, nil, errTorn
	}
	var s State
	var ok bool
	if algorithm == descriptors.TokenBucket {
		s, ok = RestoreTokens(window, r.uvarint(), Instant(r.uvarint()), Instant(r.uvarint()), r.uvarint())
	} else {
		s, ok = r.cells(&Cells{window: window, bucket: resolutionOf(algorithm, precision)})
	}
	if !ok || r.torn {
		return nil, nil, errTorn
	}
	return s, r.src, nil
}

type reader struct {
	src  []byte
	torn bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.src)
	r.skip(n)
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.src)
	r.skip(n)
	return v
}

// skip steps over the n bytes of a number; n ≤ 0 means that they held none.
func (r *reader) skip(n int) {
	r.torn = r.torn || n <= 0
	r.src = r.src[max(n, 0):]
}

// cells reads the cells of an empty s, false if they break a rule.
func (r *reader) cells(s *Cells) (*Cells, bool) {
	n := r.uvarint()
	if r.torn || n > uint64(len(r.src)) {
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
