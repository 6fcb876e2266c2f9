package rls

import (
	"cmp"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/server/limit"
)

// Headers are what Envoy is to add to requests and answers. The zero value adds nothing.
type Headers struct {
	Answer     Names // of the answer that the caller gets
	Request    Names // of the request that the service behind Envoy gets
	RetryAfter bool  // tell refused callers, in whole seconds, when to come again
}

// Names are of the headers that show one descriptor's limit. One that is empty is left out.
type Names struct {
	Limit     string // hits allowed in a window
	Remaining string // hits left
	Reset     string // whole seconds until there are more
}

// The fields of a RateLimitResponse.
const (
	responseHeadersToAdd protowire.Number = 3
	requestHeadersToAdd  protowire.Number = 4
)

// append writes the headers as fields of a RateLimitResponse.
func (h *Headers) append(dst []byte, v *limit.Verdict) []byte {
	if h.Answer != (Names{}) || h.Request != (Names{}) {
		if s := shown(v.Statuses); s != nil {
			dst = h.Answer.append(dst, responseHeadersToAdd, s)
			dst = h.Request.append(dst, requestHeadersToAdd, s)
		}
	}
	if h.RetryAfter && v.Over {
		if wait := retryIn(v.Statuses); wait != backend.Never {
			dst = appendHeader(dst, responseHeadersToAdd, "retry-after", wholeSeconds(wait))
		}
	}
	return dst
}

func (n *Names) append(dst []byte, field protowire.Number, s *limit.Status) []byte {
	dst = appendHeader(dst, field, n.Limit, min(s.Limit.Requests, math.MaxUint32))
	dst = appendHeader(dst, field, n.Remaining, min(s.Remaining, math.MaxUint32))
	return appendHeader(dst, field, n.Reset, wholeSeconds(s.ResetIn))
}

// shown returns the status that the headers speak of, as envoyproxy/ratelimit chooses it: the last one that is over,
// unless that is a quota, else the first with the least left; nil if no limit applies.
func shown(statuses []limit.Status) *limit.Status {
	var least, over *limit.Status
	for i := range statuses {
		s := &statuses[i]
		switch {
		case s.Limit == nil || s.Unlimited:
		case s.Over && !s.Quota:
			over = s
		case least == nil || s.Remaining < least.Remaining:
			least = s
		}
	}
	return cmp.Or(over, least)
}

// retryIn returns when a refused request of this size would pass: once the last of its descriptors lets it, those that
// it has filled itself included, where any one of its quotas is enough. It is Never if that never comes.
func retryIn(statuses []limit.Status) time.Duration {
	var longest time.Duration
	quota, soonest := false, backend.Never
	for i := range statuses {
		switch s := &statuses[i]; {
		case s.Quota && s.Over:
			quota, soonest = true, min(soonest, s.RetryIn)
		case s.Quota:
			quota, soonest = true, min(soonest, s.FullFor)
		case s.Over:
			longest = max(longest, s.RetryIn)
		default:
			longest = max(longest, s.FullFor)
		}
	}
	if quota {
		longest = max(longest, soonest)
	}
	return longest
}

// appendHeader writes a HeaderValue (envoy/config/core/v3/base.proto) as one of a field's. Without a name it writes none.
func appendHeader(dst []byte, field protowire.Number, name string, value uint64) []byte {
	if name == "" {
		return dst
	}
	var digits [20]byte
	dst, begin := openMessage(dst, field)
	dst = protowire.AppendString(protowire.AppendTag(dst, 1, protowire.BytesType), name)
	dst = protowire.AppendBytes(protowire.AppendTag(dst, 2, protowire.BytesType), strconv.AppendUint(digits[:0], value, 10))
	return closeMessage(dst, begin)
}
