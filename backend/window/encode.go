package window

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// errTorn is given for bytes that Append did not write.
var errTorn = errors.New("window: torn state")

// Append writes the state for [ReadState]: its identity, then its cells as differences of bucket and count.
func (s *State) Append(dst []byte) []byte {
	dst = append(dst, byte(s.algorithm))
	dst = binary.AppendUvarint(dst, uint64(s.window))
	dst = binary.AppendUvarint(dst, uint64(s.precision))
	dst = binary.AppendUvarint(dst, uint64(s.Cells()))
	var last int64
	for _, c := range s.cells[s.head:] {
		dst = binary.AppendVarint(dst, c.bucket-last)
		dst = binary.AppendUvarint(dst, c.hits)
		last = c.bucket
	}
	return dst
}

// ReadState reads a state from the front of src and returns what follows it. Bytes that are no state give an error,
// never a state that breaks a rule.
func ReadState(src []byte) (State, []byte, error) {
	if len(src) == 0 {
		return State{}, nil, errTorn
	}
	r := reader{src: src[1:]}
	s := State{algorithm: descriptors.Algorithm(src[0])}
	s.window, s.precision = time.Duration(r.uvarint()), time.Duration(r.uvarint())
	n := r.uvarint()
	if r.torn || !s.sound() || n > uint64(len(r.src)) {
		return State{}, nil, errTorn
	}
	s.cells = make([]cell, n)
	var last int64
	for i := range s.cells {
		c := cell{bucket: last + r.varint(), hits: r.uvarint()}
		if r.torn || c.hits == 0 || c.hits > MaxCount-s.sum || (i > 0 && c.bucket <= last) {
			return State{}, nil, errTorn
		}
		s.cells[i], s.sum, last = c, s.sum+c.hits, c.bucket
	}
	return s, r.src, nil
}

// sound says whether the identity is one that a limit can have.
func (s *State) sound() bool {
	switch s.algorithm {
	case descriptors.FixedWindow, descriptors.SlidingLog:
		return s.window >= time.Second && s.precision == 0
	case descriptors.SlidingWindow:
		return s.window >= time.Second && s.precision >= time.Millisecond && s.precision < s.window
	}
	return false
}

type reader struct {
	src  []byte
	torn bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.src)
	return take(r, v, n)
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.src)
	return take(r, v, n)
}

// take steps over the n bytes that held v; n ≤ 0 means that they held none.
func take[V int64 | uint64](r *reader, v V, n int) V {
	if n <= 0 {
		r.torn = true
		return 0
	}
	r.src = r.src[n:]
	return v
}
