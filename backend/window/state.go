package window

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// errTorn is the error of bytes that Append did not write.
var errTorn = errors.New("window: torn state")

// State is the count of one limit of one key: [Tokens] of a token bucket, [Cells] of other algorithms. It is not for
// concurrent use. Make one with [NewState] or [ReadState]. now may step back; hits after it then move to now.
type State interface {
	// Sum returns the number of hits that count at now.
	Sum(now Instant) uint64
	// Add counts delta hits at now; a negative delta removes the newest, at most all of them.
	Add(now Instant, delta int64)
	// Until returns the first moment, now or later, at which at most this many of the present hits still count.
	Until(now Instant, most uint64) Instant
	// Matches reports whether this is the state of limit l: it has the same algorithm, window and precision.
	Matches(l *descriptors.Limit) bool
	// SetRate sets the rate at which hits leak to that of l, a matching limit, from now on.
	SetRate(l *descriptors.Limit, now Instant)
	// Expires returns when the last hit stops counting; 0 if none counts now.
	Expires() Instant
	// Count returns the count of l, a matching limit, for operators. It changes nothing.
	Count(l *descriptors.Limit, now Instant) backend.LimitCount
	// Append appends the state, encoded for [ReadState].
	Append(dst []byte) []byte
}

// NewState returns the empty state of a limit.
func NewState(l *descriptors.Limit) State {
	if l.Algorithm == descriptors.TokenBucket {
		// A limit of 0 requests denies all hits. It leaks like a limit of 1, so that its hits expire.
		return &Tokens{window: micros(l.Window), requests: max(1, l.Requests)}
	}
	return newCells(l.Algorithm, l.Window, l.Precision)
}

// valid reports whether a limit can have this algorithm, window and precision.
func valid(a descriptors.Algorithm, window, precision time.Duration) bool {
	switch a {
	case descriptors.FixedWindow, descriptors.SlidingLog, descriptors.TokenBucket:
		return window >= time.Second && precision == 0
	case descriptors.SlidingWindow:
		return window >= time.Second && precision < window && precision%time.Millisecond == 0 &&
			precision > 0 && precision/time.Millisecond <= math.MaxUint32
	}
	return false
}

// States are the states of a key, at most one for each limit.
type States []State

// Of returns the state of limit l, nil if there is none yet.
func (s States) Of(l *descriptors.Limit) State {
	for _, state := range s {
		if state.Matches(l) {
			return state
		}
	}
	return nil
}

// Decide decides a check by the states of its limits, and makes missing ones. It returns these states in the order of
// the limits, appended to room, which must be empty.
func (s *States) Decide(c *backend.Check, now Instant, room []State) (backend.Decision, []State) {
	for i := range c.Limits {
		state := s.Of(&c.Limits[i])
		if state == nil {
			state = NewState(&c.Limits[i])
			*s = append(*s, state)
		}
		state.SetRate(&c.Limits[i], now)
		room = append(room, state)
	}
	return Decide(room, c, now), room
}

// DropExpired deletes the states without hits that count at now, such as those of an earlier configuration. It returns
// the others, and when their last hit stops counting; 0 if there are none.
func (s States) DropExpired(now Instant) (live States, expires Instant) {
	live = s[:0]
	for _, state := range s {
		if end := state.Expires(); end > now {
			expires = max(expires, end)
			live = append(live, state)
		}
	}
	clear(s[len(live):])
	return live, expires
}

func appendIdentity(dst []byte, a descriptors.Algorithm, window, precision time.Duration) []byte {
	dst = append(dst, byte(a))
	dst = binary.AppendUvarint(dst, uint64(window))
	return binary.AppendUvarint(dst, uint64(precision))
}

// ReadState decodes a state at the front of src, and returns the rest of src. It returns an error for invalid bytes,
// never an invalid state.
func ReadState(src []byte) (State, []byte, error) {
	if len(src) == 0 {
		return nil, nil, errTorn
	}
	r := reader{src: src[1:]}
	algorithm := descriptors.Algorithm(src[0])
	window, precision := time.Duration(r.uvarint()), time.Duration(r.uvarint())
	if r.torn || !valid(algorithm, window, precision) {
		return nil, nil, errTorn
	}
	var s State
	var ok bool
	if algorithm == descriptors.TokenBucket {
		s, ok = r.tokens(micros(window))
	} else {
		s, ok = r.cells(newCells(algorithm, window, precision))
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

// skip skips the n bytes of a number; n ≤ 0 means that there is no valid number.
func (r *reader) skip(n int) {
	r.torn = r.torn || n <= 0
	r.src = r.src[max(n, 0):]
}
