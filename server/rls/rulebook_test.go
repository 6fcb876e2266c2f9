package rls

import (
	"math"
	"slices"
	"strconv"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weirproxy/weir/descriptors"
)

const overLimit = ratelimit.RateLimitResponse_OVER_LIMIT

// rulebook is what FORMAT.md and ENVIRONMENT.md say of the answer to a request, whatever has been counted before.
type rulebook struct {
	settings settings
	request  *ratelimit.RateLimitRequest
	means    []meaning // of the request's descriptors
}

// meaning is what a descriptor comes to: the limits of a rule, one that it brings itself, or nothing.
type meaning struct {
	rule *descriptors.Rule  // nil if none matches
	own  *descriptors.Limit // goes before the rule
}

func newRulebook(config *descriptors.Config, s settings, request *ratelimit.RateLimitRequest) *rulebook {
	r := &rulebook{settings: s, request: request}
	for _, d := range request.Descriptors {
		var m meaning
		known := false
		if entries := entriesOf(d); entries != nil {
			found := config.Match(request.Domain, entries)
			m.rule, known = found.Rule, found.Found != descriptors.UnknownDomain
		}
		if o := d.Limit; o != nil && known {
			times := uint32(1)
			if o.UnitMultiplier != nil {
				times = o.UnitMultiplier.Value
			}
			own, err := descriptors.NewLimit(uint64(o.RequestsPerUnit), descriptors.Unit(max(0, min(o.Unit, math.MaxUint8))), times, s.algorithm(), 0)
			if err == nil {
				m.own = &own
			}
		}
		r.means = append(r.means, m)
	}
	return r
}

// entriesOf returns the entries that can match a rule: none if one has no key.
func entriesOf(d *common.RateLimitDescriptor) (entries descriptors.Descriptor) {
	for _, e := range d.Entries {
		if e.Key == "" {
			return nil
		}
		entries = append(entries, descriptors.Entry{Key: e.Key, Value: e.Value})
	}
	return entries
}

// answered reports whether there is an answer, and fails if there is one where there should be an error, or the
// reverse.
func (r *rulebook) answered(t *testing.T, readable bool, err error) bool {
	t.Helper()
	want := codes.OK
	switch {
	case !readable:
		want = codes.Internal
	case r.request.Domain == "", len(r.request.Descriptors) == 0:
		want = codes.InvalidArgument
	}
	if got := status.Code(err); got != want {
		t.Fatalf("%v (readable: %v) is answered %v; want %v", r.request, readable, err, want)
	}
	return err == nil
}

// check fails if an answer breaks a rule.
func (r *rulebook) check(t *testing.T, answer []byte) {
	t.Helper()
	var got ratelimit.RateLimitResponse
	if err := proto.Unmarshal(answer, &got); err != nil {
		t.Fatalf("%x is no answer: %v", answer, err)
	}
	if err := got.ValidateAll(); err != nil || len(got.ProtoReflect().GetUnknown()) > 0 {
		t.Fatalf("%v is not valid: %v", &got, err)
	}
	if len(got.Statuses) != len(r.means) {
		t.Fatalf("%d statuses for %d descriptors; Envoy relies on one each", len(got.Statuses), len(r.means))
	}
	for i, s := range got.Statuses {
		if broken := r.means[i].breaks(s); broken != "" {
			t.Fatalf("status %d of %v is %v: %s", i, r.request, s, broken)
		}
	}
	refused, allSpent := r.refused(got.Statuses)
	if want := refused && !r.settings.has(shadowed); (got.OverallCode == overLimit) != want || got.OverallCode == 0 {
		t.Fatalf("%v is answered %v; want over %v, as its statuses say", r.request, &got, want)
	}
	r.checkBody(t, &got, allSpent)
	r.checkHeaders(t, &got)
	domain, told := got.DynamicMetadata.GetFields()["domain"]
	if told != r.settings.has(withMetadata) || told && domain.GetStringValue() != r.request.Domain {
		t.Fatalf("%v is told %v; want metadata only if it is asked for, and of this request", r.request, got.DynamicMetadata)
	}
}

// breaks says what is wrong with a status.
func (m *meaning) breaks(s *ratelimit.RateLimitResponse_DescriptorStatus) string {
	over, limit := s.Code == overLimit, s.CurrentLimit
	switch {
	case s.Code == ratelimit.RateLimitResponse_UNKNOWN:
		return "Envoy cannot use it"
	case limit == nil && (over || s.DurationUntilReset != nil):
		return "without a limit nothing is over, or resets"
	case limit == nil && m.own != nil:
		return "a limit that the request brings is always shown"
	case limit == nil && (s.LimitRemaining != 0) != (m.rule != nil && m.rule.Unlimited):
		return "what is left of an unlimited rule is shown as the largest number, and nothing of no limit"
	case limit == nil:
		return ""
	case !slices.ContainsFunc(m.limits(), func(l descriptors.Limit) bool { return shows(limit, &l) }):
		return "it shows a limit that is not of this descriptor"
	case s.DurationUntilReset.GetSeconds() < 1:
		return "a client that comes at once comes too early"
	case over && s.LimitRemaining != 0:
		return "something is left where it is over"
	case uint64(s.LimitRemaining) > uint64(limit.RequestsPerUnit):
		return "more is left than the limit"
	case over && m.own == nil && m.rule.Shadow:
		return "a shadow rule is never over"
	}
	return ""
}

// limits returns those that may be shown.
func (m *meaning) limits() []descriptors.Limit {
	switch {
	case m.own != nil:
		return []descriptors.Limit{*m.own}
	case m.rule != nil:
		return m.rule.Limits
	}
	return nil
}

func shows(got *ratelimit.RateLimitResponse_RateLimit, l *descriptors.Limit) bool {
	return uint64(got.RequestsPerUnit) == min(l.Requests, math.MaxUint32) && got.Name == l.Name &&
		got.Unit.String() == unitName(l.Unit) && max(1, got.UnitMultiplier.GetValue()) == l.Multiplier
}

func unitName(u descriptors.Unit) string {
	return [...]string{"UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"}[u]
}

// refused reports whether a request with these statuses is, were it not for the shadow that everything may stand in,
// and whether all of its quotas are over. One that is over refuses it, unless it is a quota: of those all must be.
func (r *rulebook) refused(statuses []*ratelimit.RateLimitResponse_DescriptorStatus) (refused, allSpent bool) {
	quotas, spent := 0, 0
	for i, s := range statuses {
		over := s.Code == overLimit
		switch {
		case !r.isQuota(i, s):
			refused = refused || over
		case over:
			spent++
			quotas++
		default:
			quotas++
		}
	}
	allSpent = quotas > 0 && spent == quotas
	return refused || allSpent, allSpent
}

// isQuota reports whether a descriptor's limit is one. What is replaced is none, unless everything is.
func (r *rulebook) isQuota(i int, s *ratelimit.RateLimitResponse_DescriptorStatus) bool {
	m := r.means[i]
	if r.settings.has(quotas) {
		return s.CurrentLimit != nil || s.LimitRemaining == 0 // all but what is unlimited
	}
	return m.own == nil && m.rule != nil && m.rule.Quota && s.CurrentLimit != nil
}

// checkBody looks for the words of the first rule that refuses the request and has some.
func (r *rulebook) checkBody(t *testing.T, got *ratelimit.RateLimitResponse, allSpent bool) {
	t.Helper()
	want := ""
	for i, s := range got.Statuses {
		refuses := got.OverallCode == overLimit && s.Code == overLimit && (allSpent || !r.isQuota(i, s))
		if rule := r.means[i].rule; want == "" && refuses && rule != nil {
			want = rule.Message
		}
	}
	if string(got.RawBody) != want {
		t.Fatalf("%v is answered %v with the body %q; want %q", r.request, got, got.RawBody, want)
	}
}

// checkHeaders looks for those that the settings ask for, and no others.
func (r *rulebook) checkHeaders(t *testing.T, got *ratelimit.RateLimitResponse) {
	t.Helper()
	var names []string
	for _, h := range got.ResponseHeadersToAdd {
		if _, err := strconv.ParseUint(h.Value, 10, 64); err != nil {
			t.Fatalf("the header %s holds %q, which is no number", h.Key, h.Value)
		}
		names = append(names, h.Key)
	}
	var want []string
	limited := func(s *ratelimit.RateLimitResponse_DescriptorStatus) bool { return s.CurrentLimit != nil }
	if r.settings.has(withHeaders) && slices.ContainsFunc(got.Statuses, limited) {
		want = append(want, "limit", "left", "reset")
	}
	mayRetry := r.settings.has(withRetryAfter) && got.OverallCode == overLimit
	if mayRetry && len(names) > len(want) { // it is left out where the request never passes
		want = append(want, "retry-after")
	}
	if !slices.Equal(names, want) {
		t.Fatalf("%v is answered with the headers %q; want %q", got, names, want)
	}
}
