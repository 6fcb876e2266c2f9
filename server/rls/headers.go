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

// Headers are what Envoy is to add to the answer that the caller gets. The zero value adds nothing.
type Headers struct {
	Enabled bool // show one descriptor's limit, under the three names; one that is empty is left out

	Limit     string // hits allowed in a window
	Remaining string // hits left
	Reset     string // whole seconds until there are more

	RetryAfter bool // tell refused callers, in whole seconds, when to come again
}

// append writes the headers as fields of a RateLimitResponse.
func (h *Headers) append(dst []byte, v *limit.Verdict) []byte {
	if h.Enabled {
		if s := shown(v.Statuses); s != nil {
			dst = appendHeader(dst, h.Limit, min(s.Limit.Requests, math.MaxUint32))
			dst = appendHeader(dst, h.Remaining, min(s.Remaining, math.MaxUint32))
			dst = appendHeader(dst, h.Reset, wholeSeconds(s.ResetIn))
		}
	}
	if h.RetryAfter && v.Over {
		if wait := retryIn(v.Statuses); wait != backend.Never {
			dst = appendHeader(dst, "retry-after", wholeSeconds(wait))
		}
	}
	return dst
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

// appendHeader writes a HeaderValue (envoy/config/core/v3/base.proto) to response_headers_to_add.
func appendHeader(dst []byte, name string, value uint64) []byte {
	if name == "" {
		return dst
	}
	var digits [20]byte
	dst, begin := openMessage(dst, 3)
	dst = protowire.AppendString(protowire.AppendTag(dst, 1, protowire.BytesType), name)
	dst = protowire.AppendBytes(protowire.AppendTag(dst, 2, protowire.BytesType), strconv.AppendUint(digits[:0], value, 10))
	return closeMessage(dst, begin)
}
