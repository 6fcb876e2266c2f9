package memcached

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/weirproxy/weir/backend/window"
)

const (
	// format begins each value of weir's.
	format = 'w'
	// headSize is that, a nonce, and when the value was written.
	headSize = 1 + 8 + 8
	// maxSkew is how far the clocks of processes may differ: so far a key's clock is the fastest one's.
	maxSkew = time.Second
	// maxLife is the longest life, in seconds, that memcached counts from now on.
	maxLife = 30 * 24 * 60 * 60
)

// held is what a value holds: the key, so that two keys of one name are an error and never one count, and the states of
// its limits as package window writes them.
type held struct {
	key    []byte
	nonce  uint64         // of who wrote it, for this once
	at     window.Instant // when, by the clock of the key
	states window.States
	was    []byte // the states as they were read
}

// read reads a value of the key.
func (h *held) read(data []byte) error {
	if len(data) < headSize || data[0] != format {
		return fmt.Errorf("the key holds what weir has not written: somebody else uses it; weir counters reset removes it")
	}
	h.nonce = binary.LittleEndian.Uint64(data[1:])
	h.at = window.Instant(binary.LittleEndian.Uint64(data[9:]))
	size, n := binary.Uvarint(data[headSize:])
	rest := data[headSize+max(n, 0):]
	if n <= 0 || size > uint64(len(rest)) {
		return fmt.Errorf("the key holds a torn value; weir counters reset removes it")
	}
	if !bytes.Equal(rest[:size], h.key) {
		return fmt.Errorf("the key has the name of another, %.40q", rest[:size])
	}
	h.was = rest[size:]
	for rest = h.was; len(rest) > 0; {
		state, after, err := window.ReadState(rest)
		if err != nil {
			return fmt.Errorf("the key holds a torn value; weir counters reset removes it: %w", err)
		}
		h.states, rest = append(h.states, state), after
	}
	return nil
}

// append writes the value, and returns from where on the states are in it.
func (h *held) append(dst []byte) (value []byte, states int) {
	dst = append(dst, format)
	dst = binary.LittleEndian.AppendUint64(dst, h.nonce)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.at))
	dst = append(binary.AppendUvarint(dst, uint64(len(h.key))), h.key...)
	states = len(dst)
	for _, s := range h.states {
		dst = s.Append(dst)
	}
	return dst, states
}

// clock returns the time by the clock of the key, which does not run backwards by up to a skew: it is the fastest of the
// clocks that write it. From further ahead it comes back, and what lies in the future moves to now.
func (h *held) clock(s *Store) window.Instant {
	now := window.At(s.config.now())
	switch ahead := time.Duration(h.at-now) * time.Microsecond; {
	case h.at <= now:
		return now
	case ahead <= s.config.skew:
		return h.at
	default:
		s.tellAhead(ahead)
		return now
	}
}

// tellAhead counts a value from the future, and logs that there are some, once a minute.
func (s *Store) tellAhead(by time.Duration) {
	s.ahead.Add(1)
	now := time.Now().Unix()
	if last := s.aheadTold.Load(); now-last < 60 || s.config.skew < 0 || !s.aheadTold.CompareAndSwap(last, now) {
		return
	}
	s.config.Log.Warn("another process of weir has written a count by a clock that is ahead of this one's: while they differ by more "+
		"than a second, a token bucket may admit more than its limit, and windows are shorter by so much; set both clocks by NTP",
		"ahead", by.Round(time.Millisecond).String())
}

// lifeUntil returns for how many seconds a value has to be kept: two more than it counts, for memcached's clock, which
// ticks once a second, and for skew.
func lifeUntil(now, expires window.Instant) int64 { return int64((expires-now+999_999)/1_000_000) + 2 }

// expiry returns what memcached is told for a life in seconds, below 0 if the value is to be gone at once. A longer one
// than a month is a moment, and what is later than memcached's numbers reach, in 2038, stays until it is evicted.
func expiry(life int64) int64 {
	if life <= maxLife {
		return life
	}
	if at := time.Now().Unix() + life; at <= math.MaxInt32 {
		return at
	}
	return 0
}
