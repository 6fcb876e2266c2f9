package rls

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

// Whatever the verdict, the bytes must be those of the protobuf message that says the same.
func TestEncodeAgreesWithProtobuf(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 5000 {
		v, h := randomVerdict(r), randomHeaders(r)
		c, o := &limit.Call{Verdict: *v}, &Options{Headers: *h, DynamicMetadata: r.IntN(2) == 0}
		c.Domain, c.Hits = strings.Repeat("d", r.IntN(300)), r.Uint32N(2)
		got, want := encoded(t, *o, c), response(v, h)
		if o.DynamicMetadata || c.Degraded {
			var err error
			if want.DynamicMetadata, err = structpb.NewStruct(metadata(c, o)); err != nil {
				t.Fatal(err)
			}
		}
		if !proto.Equal(got, want) {
			t.Fatalf("encoded %v\nwant    %v", got, want)
		}
	}
}

// encoded reads the answer that a call gets.
func encoded(t *testing.T, o Options, c *limit.Call) *ratelimit.RateLimitResponse {
	t.Helper()
	answer := new(ratelimit.RateLimitResponse)
	if err := proto.Unmarshal((&Service{options: o}).encode(c), answer); err != nil {
		t.Fatalf("%+v: protobuf cannot read the answer: %v", c.Verdict, err)
	}
	return answer
}

func randomVerdict(r *rand.Rand) *limit.Verdict {
	v := &limit.Verdict{Over: r.IntN(2) == 0, Statuses: make([]limit.Status, r.IntN(4)), Degraded: r.IntN(4) == 0}
	if r.IntN(3) == 0 {
		v.Message = strings.Repeat("x", r.IntN(300))
	}
	for i := range v.Statuses {
		s := &v.Statuses[i]
		s.Over, s.Unlimited = r.IntN(2) == 0, r.IntN(5) == 0
		if r.IntN(4) > 0 {
			s.Limit = &descriptors.Limit{Requests: r.Uint64() >> r.IntN(64), Unit: descriptors.Unit(1 + r.IntN(7)),
				Multiplier: 1 + r.Uint32N(3)*1000, Name: strings.Repeat("n", r.IntN(2)*r.IntN(20_000))}
		}
		if s.Over {
			s.RetryIn = time.Duration(r.Int64() >> r.IntN(63))
			if r.IntN(8) == 0 {
				s.RetryIn = backend.Never
			}
		}
		s.Remaining, s.ResetIn = r.Uint64()>>r.IntN(64), time.Duration(r.Int64()>>r.IntN(63))
	}
	return v
}

func randomHeaders(r *rand.Rand) *Headers {
	names := []string{"", "x", "RateLimit-Limit", strings.Repeat("n", 200)}
	some := func() Names {
		return Names{Limit: names[r.IntN(4)], Remaining: names[r.IntN(4)], Reset: names[r.IntN(4)]}
	}
	h := &Headers{RetryAfter: r.IntN(2) == 0}
	if r.IntN(2) == 0 {
		h.Answer = some()
	}
	if r.IntN(2) == 0 {
		h.Request = some()
	}
	return h
}

// headers says the headers of a verdict in protobuf's own words.
func headers(v *limit.Verdict, h *Headers) (answer, request []*core.HeaderValue) {
	add := func(to *[]*core.HeaderValue, name string, value uint64) {
		if name != "" {
			*to = append(*to, &core.HeaderValue{Key: name, Value: strconv.FormatUint(value, 10)})
		}
	}
	if s := headerStatus(v.Statuses); s != nil {
		for names, to := range map[*Names]*[]*core.HeaderValue{&h.Answer: &answer, &h.Request: &request} {
			add(to, names.Limit, min(s.Limit.Requests, math.MaxUint32))
			add(to, names.Remaining, min(s.Remaining, math.MaxUint32))
			add(to, names.Reset, wholeSeconds(s.ResetIn))
		}
	}
	if wait := retryIn(v.Statuses); h.RetryAfter && v.Over && wait != backend.Never {
		add(&answer, "retry-after", wholeSeconds(wait))
	}
	return answer, request
}

// response says a verdict in protobuf's own words.
func response(v *limit.Verdict, h *Headers) *ratelimit.RateLimitResponse {
	out := &ratelimit.RateLimitResponse{OverallCode: codeName(v.Over)}
	out.ResponseHeadersToAdd, out.RequestHeadersToAdd = headers(v, h)
	if v.Over && v.Message != "" {
		out.RawBody = []byte(v.Message)
	}
	for _, s := range v.Statuses {
		status := &ratelimit.RateLimitResponse_DescriptorStatus{Code: codeName(s.Over)}
		switch {
		case s.Unlimited:
			status.LimitRemaining = math.MaxUint32
		case s.Limit != nil:
			status.CurrentLimit = &ratelimit.RateLimitResponse_RateLimit{
				RequestsPerUnit: uint32(min(s.Limit.Requests, math.MaxUint32)), Name: s.Limit.Name,
				Unit: ratelimit.RateLimitResponse_RateLimit_Unit(s.Limit.Unit),
			}
			if s.Limit.Multiplier > 1 {
				status.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(s.Limit.Multiplier)
			}
			status.LimitRemaining = uint32(min(s.Remaining, math.MaxUint32))
			status.DurationUntilReset = &durationpb.Duration{Seconds: max(1, int64(math.Ceil(s.ResetIn.Seconds())))}
			if exact := int64((s.ResetIn + time.Second - 1) / time.Second); s.ResetIn < math.MaxInt64-time.Second {
				status.DurationUntilReset.Seconds = max(1, exact)
			}
		}
		out.Statuses = append(out.Statuses, status)
	}
	return out
}

func codeName(over bool) ratelimit.RateLimitResponse_Code {
	if over {
		return ratelimit.RateLimitResponse_OVER_LIMIT
	}
	return ratelimit.RateLimitResponse_OK
}

func TestDurationsRoundUpToAtLeastASecond(t *testing.T) {
	for d, want := range map[time.Duration]uint64{
		0: 1, time.Microsecond: 1, time.Second: 1, time.Second + 1: 2, 61 * time.Second: 61, math.MaxInt64: 9223372037,
	} {
		if got := wholeSeconds(d); got != want {
			t.Errorf("%v goes out as %d s, want %d", d, got, want)
		}
	}
}
