package memcached

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/weirproxy/weir/backend/window"
)

const (
	// format is the first byte of each value.
	format = 'x'
	// headSize is the size of the format and the time of writing, in bytes.
	headSize = 1 + 8
	// maxSkew is how far the clocks of processes may differ: so far a key's clock is the fastest one's.
	maxSkew = time.Second
	// maxLife is the longest life, in seconds, that memcached counts from now on.
	maxLife = 30 * 24 * 60 * 60
)

// entry is the content of a value.
type entry struct {
	at         window.Instant // time of writing, by the clock of the key
	states     window.States
	readStates []byte // the encoded states, as read
}

// read reads a value.
func (e *entry) read(data []byte) error {
	if len(data) < headSize || data[0] != format {
		return fmt.Errorf("the key holds a value that is not of weir: something else uses it; weir counters reset removes it")
	}
	e.at = window.Instant(binary.LittleEndian.Uint64(data[1:]))
	e.readStates = data[headSize:]
	for rest := e.readStates; len(rest) > 0; {
		state, after, err := window.ReadState(rest)
		if err != nil {
			return fmt.Errorf("the key holds a torn value; weir counters reset removes it: %w", err)
		}
		e.states, rest = append(e.states, state), after
	}
	return nil
}

// append writes the value.
func (e *entry) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(append(dst, format), uint64(e.at))
	for _, s := range e.states {
		dst = s.Append(dst)
	}
	return dst
}

// clock returns the key's time: the time of the last write if that is ahead by up to the skew, so that time does not run
// backwards between processes; else this process's, to which states that are further ahead move back.
func (e *entry) clock(s *Store) window.Instant {
	now := window.At(s.config.now())
	switch ahead := time.Duration(e.at-now) * time.Microsecond; {
	case e.at <= now:
		return now
	case ahead <= s.config.skew:
		return e.at
	default:
		s.noteAhead(ahead)
		return now
	}
}

// noteAhead counts a value that was written by a clock too far ahead, and logs that once a minute.
func (s *Store) noteAhead(by time.Duration) {
	s.ahead.Add(1)
	s.aheadLog.Warn(s.config.Log, "another process of weir has written a count by a clock that is ahead of this one's: while they differ by more "+
		"than a second, a token bucket may admit more than its limit, and windows are shorter by so much; set both clocks by NTP",
		"ahead", by.Round(time.Millisecond).String())
}

// lifeUntil returns how many seconds a value is kept: two more than it counts, one as memcached's clock ticks once a
// second, one for skew.
func lifeUntil(now, expires window.Instant) int64 { return int64((expires-now+999_999)/1_000_000) + 2 }

// expiry returns memcached's exptime for a life in seconds: the life itself up to 30 days (below 0 expires at once),
// then a Unix time, and 0, never, beyond 2038, where its 32 bits end.
func expiry(life int64) int64 {
	if life <= maxLife {
		return life
	}
	if at := time.Now().Unix() + life; at <= math.MaxInt32 {
		return at
	}
	return 0
}
