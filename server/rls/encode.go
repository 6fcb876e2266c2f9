package rls

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

// encode writes a call's verdict as a RateLimitResponse (envoy/service/ratelimit/v3/rls.proto).
func (s *Service) encode(c *limit.Call) []byte {
	v, o := &c.Verdict, &s.options
	over, size := v.Result == limit.OverLimit, 16+48*len(v.Statuses)+len(v.Message)
	if o.explainsDenial(v) {
		size += deniedSize
	}
	dst := make([]byte, 0, size)
	dst = appendVarint(dst, 1, code(over))
	for i := range v.Statuses {
		var begin int
		dst, begin = openMessage(dst, 2)
		dst = appendStatus(dst, &v.Statuses[i])
		dst = closeMessage(dst, begin)
	}
	dst = o.Headers.append(dst, v)
	if o.DynamicMetadata || c.Degraded || o.explainsDenial(v) {
		dst = s.appendMetadata(dst, c)
	}
	if over && v.Message != "" {
		dst = appendText(dst, 5, v.Message)
	}
	return dst
}

// explainsDenial reports whether the dynamic metadata must explain a denial, one that shadow mode prevented, or an
// unknown domain.
func (o *Options) explainsDenial(v *limit.Verdict) bool {
	return o.DeniedMetadata && (v.Result != limit.OK || v.UnknownDomain || slices.ContainsFunc(v.Statuses, shadowOver))
}

func appendStatus(dst []byte, s *limit.Status) []byte {
	dst = appendVarint(dst, 1, code(s.Outcome == limit.Over))
	if s.Outcome == limit.Unlimited {
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

// appendLimit writes the fields of a RateLimit. weir's units have the numbers of protobuf's.
func appendLimit(dst []byte, l *descriptors.Limit) []byte {
	dst = appendVarint(dst, 1, min(l.Requests, math.MaxUint32))
	dst = appendVarint(dst, 2, uint64(l.Unit))
	if l.Name != "" {
		dst = appendText(dst, 3, l.Name)
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

// wholeSeconds rounds up, to at least 1, so that a client that waits that long is not too early.
func wholeSeconds(d time.Duration) uint64 {
	seconds := uint64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return max(1, seconds)
}

// appendVarint writes a field, unless it is 0, which proto3 omits.
func appendVarint(dst []byte, number protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), v)
}

// appendText writes a string field.
func appendText[T string | []byte](dst []byte, number protowire.Number, text T) []byte {
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	return append(protowire.AppendVarint(dst, uint64(len(text))), text...)
}

// openMessage begins a message field. It leaves one byte for the length, which closeMessage sets.
func openMessage(dst []byte, number protowire.Number) ([]byte, int) {
	dst = append(protowire.AppendTag(dst, number, protowire.BytesType), 0)
	return dst, len(dst)
}

// closeMessage ends the message that begins at begin. It moves the message if its length needs more bytes.
func closeMessage(dst []byte, begin int) []byte {
	size := len(dst) - begin
	if extra := protowire.SizeVarint(uint64(size)) - 1; extra > 0 {
		dst = append(dst, make([]byte, extra)...)
		copy(dst[begin+extra:], dst[begin:begin+size])
	}
	binary.PutUvarint(dst[begin-1:], uint64(size))
	return dst
}

// Headers are the headers that Envoy adds to requests and responses. The zero value adds nothing.
type Headers struct {
	Response   HeaderNames // of the response to the caller
	Request    HeaderNames // of the request to the upstream
	RetryAfter bool        // add retry-after to refused answers, in whole seconds
}

// HeaderNames are the names of headers that show one descriptor's limit. A header with an empty name is omitted.
type HeaderNames struct {
	Limit     string // hits allowed in a window
	Remaining string // hits that still fit
	Reset     string // whole seconds until more fit
}

// The fields of a RateLimitResponse.
const (
	responseHeadersToAdd protowire.Number = 3
	requestHeadersToAdd  protowire.Number = 4
)

// append writes the headers as fields of a RateLimitResponse.
func (h *Headers) append(dst []byte, v *limit.Verdict) []byte {
	if h.Response != (HeaderNames{}) || h.Request != (HeaderNames{}) {
		if s := headerStatus(v.Statuses); s != nil {
			dst = h.Response.append(dst, responseHeadersToAdd, s)
			dst = h.Request.append(dst, requestHeadersToAdd, s)
		}
	}
	if h.RetryAfter && v.Result == limit.OverLimit {
		if wait := retryIn(v.Statuses); wait != backend.Never {
			dst = appendHeader(dst, responseHeadersToAdd, "retry-after", wholeSeconds(wait))
		}
	}
	return dst
}

func (n *HeaderNames) append(dst []byte, field protowire.Number, s *limit.Status) []byte {
	dst = appendHeader(dst, field, n.Limit, min(s.Limit.Requests, math.MaxUint32))
	dst = appendHeader(dst, field, n.Remaining, min(s.Remaining, math.MaxUint32))
	return appendHeader(dst, field, n.Reset, wholeSeconds(s.ResetIn))
}

// headerStatus returns the status that the headers show, chosen as in envoyproxy/ratelimit: the last one that is over
// and not a quota, else the one with the least remaining hits; nil if no limit applies.
func headerStatus(statuses []limit.Status) *limit.Status {
	var least, over *limit.Status
	for i := range statuses {
		s := &statuses[i]
		switch {
		case s.Limit == nil:
		case s.Outcome == limit.Over && !s.Quota:
			over = s
		case least == nil || s.Remaining < least.Remaining:
			least = s
		}
	}
	return cmp.Or(over, least)
}

// retryIn returns after what time a refused request would pass if it were repeated: once all its descriptors have room,
// those too that had room just for this request, but only one of its quotas. It returns backend.Never if it never would.
func retryIn(statuses []limit.Status) time.Duration {
	var longest time.Duration
	quota, soonest := false, backend.Never
	for i := range statuses {
		switch s := &statuses[i]; {
		case s.Quota && s.Outcome == limit.Over:
			quota, soonest = true, min(soonest, s.RetryIn)
		case s.Quota:
			quota, soonest = true, min(soonest, s.NextIn)
		case s.Outcome == limit.Over:
			longest = max(longest, s.RetryIn)
		default:
			longest = max(longest, s.NextIn)
		}
	}
	if quota {
		longest = max(longest, soonest)
	}
	return longest
}

// appendHeader writes a HeaderValue (envoy/config/core/v3/base.proto) as a field, unless the name is empty.
func appendHeader(dst []byte, field protowire.Number, name string, value uint64) []byte {
	if name == "" {
		return dst
	}
	var digits [20]byte
	dst, begin := openMessage(dst, field)
	dst = appendText(dst, 1, name)
	dst = appendText(dst, 2, strconv.AppendUint(digits[:0], value, 10))
	return closeMessage(dst, begin)
}
