package rls

import (
	"encoding/binary"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

// encode writes a call's verdict as a RateLimitResponse (envoy/service/ratelimit/v3/rls.proto).
func (s *Service) encode(c *limit.Call) []byte {
	v, o := &c.Verdict, &s.options
	size := 16 + 48*len(v.Statuses) + len(v.Message)
	if o.tells(v) {
		size += deniedSize
	}
	dst := make([]byte, 0, size)
	dst = appendVarint(dst, 1, code(v.Over))
	for i := range v.Statuses {
		var begin int
		dst, begin = openMessage(dst, 2)
		dst = appendStatus(dst, &v.Statuses[i])
		dst = closeMessage(dst, begin)
	}
	dst = o.Headers.append(dst, v)
	if o.DynamicMetadata || c.Degraded || o.tells(v) {
		dst = s.appendMetadata(dst, c)
	}
	if v.Over && v.Message != "" {
		dst = protowire.AppendTag(dst, 5, protowire.BytesType)
		dst = protowire.AppendString(dst, v.Message)
	}
	return dst
}

// appendStatus writes the fields of a DescriptorStatus.
func appendStatus(dst []byte, s *limit.Status) []byte {
	dst = appendVarint(dst, 1, code(s.Over))
	if s.Unlimited {
		return appendVarint(dst, 3, math.MaxUint32)
	}
	if s.Limit == nil {
		return dst
	}
	dst, begin := openMessage(dst, 2)
	dst = appendLimit(dst, s.Limit)
	dst = closeMessage(dst, begin)
	dst = appendVarint(dst, 3, min(s.Remaining, math.MaxUint32))
	dst, begin = openMessage(dst, 4)
	dst = appendVarint(dst, 1, wholeSeconds(s.ResetIn))
	return closeMessage(dst, begin)
}

// appendLimit writes the fields of a RateLimit. weir's units have the wire's numbers.
func appendLimit(dst []byte, l *descriptors.Limit) []byte {
	dst = appendVarint(dst, 1, min(l.Requests, math.MaxUint32))
	dst = appendVarint(dst, 2, uint64(l.Unit))
	if l.Name != "" {
		dst = protowire.AppendTag(dst, 3, protowire.BytesType)
		dst = protowire.AppendString(dst, l.Name)
	}
	if l.Multiplier > 1 {
		var begin int
		dst, begin = openMessage(dst, 4)
		dst = appendVarint(dst, 1, uint64(l.Multiplier))
		dst = closeMessage(dst, begin)
	}
	return dst
}

// code returns a RateLimitResponse.Code.
func code(over bool) uint64 {
	if over {
		return 2 // OVER_LIMIT
	}
	return 1 // OK
}

// wholeSeconds rounds up, to at least 1: a client that waits that long does not come too early.
func wholeSeconds(d time.Duration) uint64 {
	seconds := uint64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return max(1, seconds)
}

// appendVarint writes a field, unless it is 0, which proto3 leaves out.
func appendVarint(dst []byte, number protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), v)
}

// openMessage begins a field that is a message, with room for a length of one byte; closeMessage fills it in.
func openMessage(dst []byte, number protowire.Number) ([]byte, int) {
	dst = append(protowire.AppendTag(dst, number, protowire.BytesType), 0)
	return dst, len(dst)
}

// closeMessage ends the message that begins at begin. A long one is moved to make room for its length.
func closeMessage(dst []byte, begin int) []byte {
	size := len(dst) - begin
	if extra := protowire.SizeVarint(uint64(size)) - 1; extra > 0 {
		dst = append(dst, make([]byte, extra)...)
		copy(dst[begin+extra:], dst[begin:begin+size])
	}
	binary.PutUvarint(dst[begin-1:], uint64(size))
	return dst
}
