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
	// maxSkew is how far the clocks of processes may differ. Within it a key's clock is that of the fastest process.
	maxSkew = time.Second
	// maxRelative is the longest exptime, in seconds, that memcached takes as relative; it takes others as Unix times.
	maxRelative = 30 * 24 * 60 * 60
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
		return fmt.Errorf("the key holds a value that weir did not write: another program uses it; weir counters reset removes it")
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

// append appends the value.
func (e *entry) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(append(dst, format), uint64(e.at))
	for _, s := range e.states {
		dst = s.Append(dst)
	}
	return dst
}

// clock returns the time of the key. If the last write is ahead of this process by at most the skew, it is the time of
// that write, so that time does not run backwards between processes. Else it is this process's time, to which states of
// a write further ahead move back.
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

// noteAhead counts a value that was written by a clock too far ahead, and logs it at most once a minute.
func (s *Store) noteAhead(by time.Duration) {
	s.ahead.Add(1)
	s.aheadLog.Warn(s.config.Log, "clock of another weir process is ahead", "ahead", by.Round(time.Millisecond).String(),
		"effect", "while clocks differ by more than a second, token buckets may admit more than their limits, and windows are shorter",
		"remedy", "set both clocks by NTP")
}

// ttlUntil returns the TTL of a value in seconds: two more than its hits count, one because memcached's clock ticks
// once a second, one for skew.
func ttlUntil(now, expires window.Instant) int64 { return int64((expires-now+999_999)/1_000_000) + 2 }

// exptime returns memcached's exptime for a TTL in seconds: the TTL itself up to 30 days (below 0: expires at once),
// then a Unix time, and 0, which means never, after 2038, where its 32 bits end.
func exptime(ttl int64) int64 {
	if ttl <= maxRelative {
		return ttl
	}
	if at := time.Now().Unix() + ttl; at <= math.MaxInt32 {
		return at
	}
	return 0
}
