package rls

import (
	"cmp"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

// The fields of google.protobuf.Struct, of the entries of its map, and of a Value.
const (
	structFields protowire.Number = 1
	entryKey     protowire.Number = 1
	entryValue   protowire.Number = 2
	valueNumber  protowire.Number = 2
	valueString  protowire.Number = 3
	valueStruct  protowire.Number = 5
)

// unknownDomainEntry is the entry of the Struct for an unknown domain. It does not repeat the name that the client sent.
var unknownDomainEntry, _ = proto.Marshal(&structpb.Struct{Fields: map[string]*structpb.Value{
	"unknown_domain": structpb.NewBoolValue(true)}})

// deniedSize is how many bytes are allocated for an entry, enough for names and paths of usual length.
const deniedSize = 176

// appendDenied writes entries of the Struct dynamic_metadata: unknown_domain, or denied and shadow_denied, each a
// Struct of the rule and the limit. It is hand-written because refusals must stay cheap.
func appendDenied(dst []byte, c *limit.Call) []byte {
	if c.UnknownDomain {
		return append(dst, unknownDomainEntry...)
	}
	if denier := denyingStatus(&c.Verdict); denier != nil {
		if c.Result == limit.Shadowed {
			return appendDenial(dst, "shadow_denied", c.Domain, denier, denier.RetryIn)
		}
		dst = appendDenial(dst, "denied", c.Domain, denier, retryIn(c.Statuses))
	}
	if i := slices.IndexFunc(c.Statuses, shadowOver); i >= 0 {
		denier := &c.Statuses[i]
		return appendDenial(dst, "shadow_denied", c.Domain, denier, denier.RetryIn)
	}
	return dst
}

// shadowOver reports whether only shadow mode keeps a descriptor from refusing its request.
func shadowOver(s limit.Status) bool { return s.Outcome == limit.ShadowOver }

// denyingStatus returns the status that refuses the request, or would without limit.Options.Shadow; nil for none. It is
// the one with the longest wait or, if only quotas are over, with the shortest.
func denyingStatus(v *limit.Verdict) *limit.Status {
	if v.Result == limit.OK {
		return nil
	}
	var longest, quota *limit.Status
	for i := range v.Statuses {
		switch s := &v.Statuses[i]; {
		case s.Outcome != limit.Over:
		case s.Quota:
			if quota == nil || s.RetryIn < quota.RetryIn {
				quota = s
			}
		case longest == nil || s.RetryIn > longest.RetryIn:
			longest = s
		}
	}
	return cmp.Or(longest, quota)
}

// appendDenial writes one entry: the rule, its limit and, unless wait is backend.Never, the whole seconds to wait.
func appendDenial(dst []byte, name, domain string, denier *limit.Status, wait time.Duration) []byte {
	dst, entry, value := openField(dst, name)
	dst, denial := openMessage(dst, valueStruct)
	dst = appendRule(dst, domain, denier)
	if wait != backend.Never {
		dst = appendNumber(dst, "retry_after", float64(wholeSeconds(wait)))
	}
	return closeMessage(closeMessage(closeMessage(dst, denial), value), entry)
}

// appendRule writes the domain, the rule's path in its stored and its readable form, the limit, and its name if it has one.
func appendRule(dst []byte, domain string, s *limit.Status) []byte {
	var room [128]byte // on the stack
	dst = appendField(dst, "domain", domain)
	dst = appendField(dst, "path", s.Path())
	dst = appendField(dst, "rule", descriptors.ReadablePath(s.Path()))
	dst = appendField(dst, "limit", s.Limit.Append(room[:0]))
	if s.Limit.Name != "" {
		dst = appendField(dst, "name", s.Limit.Name)
	}
	return dst
}

func appendField[T string | []byte](dst []byte, name string, text T) []byte {
	dst, entry, value := openField(dst, name)
	dst = appendText(dst, valueString, text)
	return closeMessage(closeMessage(dst, value), entry)
}

func appendNumber(dst []byte, name string, n float64) []byte {
	dst, entry, value := openField(dst, name)
	dst = protowire.AppendTag(dst, valueNumber, protowire.Fixed64Type)
	dst = protowire.AppendFixed64(dst, math.Float64bits(n))
	return closeMessage(closeMessage(dst, value), entry)
}

// openField begins an entry of a Struct and its value. Both are messages for closeMessage.
func openField(dst []byte, name string) (_ []byte, entry, value int) {
	dst, entry = openMessage(dst, structFields)
	dst, value = openMessage(appendText(dst, entryKey, name), entryValue)
	return dst, entry, value
}
