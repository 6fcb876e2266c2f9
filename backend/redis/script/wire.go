// Package script has the Lua script that decides checks inside a Redis server, and the encoding of its arguments and
// replies. It talks to no server itself.
//
// The script keeps all limits of a key in one hash, in buckets on several levels with a running sum beside them; see
// KEYS.md. It decides as package window does, step for step.
package script

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// AppendKey appends the Redis key of a check's key, weir:{hash}key. The hash tag is a hash of the whole key, so that no
// request chooses a slot, and one domain spreads over all.
func AppendKey(dst, key []byte) []byte {
	var sum [8]byte
	binary.BigEndian.PutUint64(sum[:], xxhash.Sum64(key))
	dst = append(dst, "weir:{"...)
	dst = base64.RawURLEncoding.AppendEncode(dst, sum[:])
	dst = append(dst, '}')
	return append(dst, key...)
}

// KeyOf returns the Redis key of a name under a hash tag that the caller chooses.
func KeyOf(tag, name string) string { return "weir:{" + tag + "}" + name }

// leaseOp is added to the operation of a check with a lease.
const leaseOp = 4

// AppendArg appends the spec of a check; see lua/limits.lua.
func AppendArg(dst []byte, c *backend.Check) []byte {
	op := byte(c.Op)
	if c.Lease != nil {
		op += leaseOp
	}
	dst = append56(append(dst, op), min(c.Hits, window.MaxCount+1))
	if l := c.Lease; l != nil {
		numbers := [...]uint64{l.Want, max(1, l.Share), l.Abandoned, l.State}
		if c.Op == backend.Refund {
			numbers = [...]uint64{l.Granted, l.Unused, uint64(l.ChargedAt.UnixMicro()), l.State}
		}
		for _, v := range numbers {
			dst = append56(dst, min(v, window.MaxCount))
		}
	}
	dst = append(dst, byte(len(c.Limits)))
	for i := range c.Limits {
		dst = appendLimit(dst, &c.Limits[i], c.Charge)
	}
	return dst
}

func appendLimit(dst []byte, l *descriptors.Limit, charge descriptors.Charge) []byte {
	always := byte(0)
	if charge.Always(l) {
		always = 1
	}
	dst = append(dst, byte(l.Algorithm), always)
	dst = append56(dst, min(l.Capacity(), window.MaxCount))
	dst = append56(dst, micros(l.Window))
	dst = append56(dst, step(l))
	at := len(dst)
	dst = appendName(append(dst, 0), l)
	dst[at] = byte(len(dst) - at - 1)
	levels := l.Levels()
	dst = append(dst, byte(len(levels)))
	for level := range levels {
		dst = append(dst, fan(levels, level))
	}
	return dst
}

// topFan is the number of buckets in a chunk of the coarsest level.
const topFan = 15

// fan returns the number of buckets in a chunk of a level: as many as one bucket of the next level holds.
func fan(levels []time.Duration, level int) byte {
	if level+1 == len(levels) {
		return topFan
	}
	return byte(levels[level+1] / levels[level])
}

// precisionNames end a field's name. They are no digits, as the number of a level follows.
var precisionNames = map[time.Duration]string{
	50 * time.Millisecond: "t", time.Second: "s", time.Minute: "m", time.Hour: "h", 24 * time.Hour: "d",
}

func micros(d time.Duration) uint64 {
	return min(uint64(d/time.Microsecond), window.MaxCount)
}

// append56 appends seven bytes, little endian, as the script's struct library reads them.
func append56(dst []byte, v uint64) []byte {
	return append(dst, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40), byte(v>>48))
}

// The sizes of a decision in the reply. It has a byte for the strictest limit, then numbers of eight bytes: Before and
// ResetIn. A denial adds RetryIn. An allowed check that filled a limit adds NextIn and one byte. A refund that could
// not take back leased hits adds the hits that still count and one byte. If the check has a lease, three numbers
// follow: the hits granted or returned, the identity of the key's state, and the time.
const (
	allowedSize = 1 + 2*8
	deniedSize  = 1 + 3*8
	fullSize    = deniedSize + 1
	leaseSize   = 3 * 8
)

// Decode reads one string of the reply. Its error is the script's, for a check that was not counted.
func Decode(reply string, c *backend.Check) (backend.Decision, error) {
	if text, failed := strings.CutPrefix(reply, "!"); failed {
		return backend.Decision{}, errors.New(text)
	}
	end := len(reply)
	if c.Lease != nil {
		end -= leaseSize
	}
	valid := end == allowedSize || end == deniedSize || end == fullSize
	if !valid || int(reply[0]) >= len(c.Limits) {
		return backend.Decision{}, fmt.Errorf("the script answered %q, which is not a decision", reply)
	}
	if l := c.Lease; l != nil {
		hits := &l.Hits
		if c.Op == backend.Refund {
			hits = &l.Returned
		}
		*hits, l.State = uint64(readDouble(reply[end:])), uint64(readDouble(reply[end+8:]))
		l.Now = time.UnixMicro(int64(readDouble(reply[end+16:])))
	}
	number := func(i int) float64 { return readDouble(reply[1+8*i:]) }
	d := backend.Decision{
		Allowed: end != deniedSize, Strictest: int(reply[0]), Before: uint64(number(0)), ResetIn: duration(number(1)),
	}
	if d.Allowed {
		capacity, hits := c.Limits[d.Strictest].Capacity(), d.Before
		switch {
		case c.Op == backend.Count:
			hits += c.Hits
		case c.Op == backend.Refund && end == fullSize:
			hits = uint64(number(2))
		case c.Op == backend.Refund:
			hits -= min(hits, c.Hits)
		}
		if c.Op != backend.Refund && end == fullSize {
			d.NextIn = duration(number(2))
		}
		d.Remaining = capacity - min(capacity, hits)
	} else if retry := number(2); retry >= 0 {
		d.RetryIn = duration(retry)
	} else {
		d.RetryIn = backend.Never
	}
	return d, nil
}

// readDouble reads a little-endian double.
func readDouble(s string) float64 { return math.Float64frombits(uint64(littleEndian(s[:8]))) }

func duration(micros float64) time.Duration {
	return time.Duration(min(micros, math.MaxInt64/1000)) * time.Microsecond
}
