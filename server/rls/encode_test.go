package rls

import (
	"math"
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

// The encoded bytes must equal those of protobuf's message, for texts and messages of any length. Numbers that are too
// large for a field become its largest. Package server tests the contents of answers.
func TestEncodeAgreesWithProtobuf(t *testing.T) {
	for length := 1; length < 16_390; length++ {
		switch length {
		case 150: // to where the length of a message of four texts needs a third byte,
			length = 4060
		case 4090: // and that of one
			length = 16_350
		}
		text := strings.Repeat("n", length)
		limited := &descriptors.Limit{Requests: math.MaxUint64, Unit: descriptors.Week, Multiplier: 1000, Name: text}
		c := &limit.Call{Request: limit.Request{Domain: text}, Verdict: limit.Verdict{Result: limit.OverLimit, Message: text, Statuses: []limit.Status{
			{Limit: limited, Outcome: limit.Within, Decision: backend.Decision{Remaining: math.MaxUint64, ResetIn: math.MaxInt64}}, {}, {Outcome: limit.Unlimited},
			{Limit: limited, Outcome: limit.Over, Rule: &descriptors.Rule{Path: text}, Decision: backend.Decision{RetryIn: time.Second + 1}}}}}
		o := Options{Headers: Headers{Response: HeaderNames{Limit: text, Reset: "reset"}, Request: HeaderNames{Remaining: text}, RetryAfter: true},
			DynamicMetadata: true, DeniedMetadata: true}

		const ok, over = ratelimit.RateLimitResponse_OK, ratelimit.RateLimitResponse_OVER_LIMIT
		shown := &ratelimit.RateLimitResponse_RateLimit{RequestsPerUnit: math.MaxUint32, Name: text,
			Unit: ratelimit.RateLimitResponse_RateLimit_Unit(descriptors.Week), UnitMultiplier: wrapperspb.UInt32(1000)}
		want := &ratelimit.RateLimitResponse{OverallCode: over, RawBody: []byte(text),
			Statuses: []*ratelimit.RateLimitResponse_DescriptorStatus{
				{Code: ok, CurrentLimit: shown, LimitRemaining: math.MaxUint32, DurationUntilReset: &durationpb.Duration{Seconds: 9223372037}},
				{Code: ok}, {Code: ok, LimitRemaining: math.MaxUint32},
				{Code: over, CurrentLimit: shown, DurationUntilReset: &durationpb.Duration{Seconds: 1}}},
			ResponseHeadersToAdd: []*core.HeaderValue{{Key: text, Value: "4294967295"}, {Key: "reset", Value: "1"}, {Key: "retry-after", Value: "2"}},
			RequestHeadersToAdd:  []*core.HeaderValue{{Key: text, Value: "0"}}}
		if length%2 == 0 { // some headers are for the request alone
			o.Headers.Response, want.ResponseHeadersToAdd = HeaderNames{}, want.ResponseHeadersToAdd[2:]
		}
		said := metadataFields(c, &o)
		said["denied"] = map[string]any{"domain": text, "path": text, "rule": text, "limit": limited.String(), "name": text, "retry_after": 2}
		var err error
		if want.DynamicMetadata, err = structpb.NewStruct(said); err != nil {
			t.Fatal(err)
		}
		if got := encoded(t, o, c); !proto.Equal(got, want) {
			t.Fatalf("with texts of %d bytes encoded %v\nwant    %v", length, got, want)
		}
	}
}

// encoded returns the decoded answer of a call.
func encoded(t *testing.T, o Options, c *limit.Call) *ratelimit.RateLimitResponse {
	t.Helper()
	answer := new(ratelimit.RateLimitResponse)
	if err := proto.Unmarshal((&Service{options: o}).encode(c), answer); err != nil {
		t.Fatalf("%+v: protobuf cannot read the answer: %v", c.Verdict, err)
	}
	return answer
}

func TestDurationsRoundUpToSeconds(t *testing.T) {
	for d, want := range map[time.Duration]uint64{
		0: 1, time.Microsecond: 1, time.Second: 1, time.Second + 1: 2, 61 * time.Second: 61, math.MaxInt64: 9223372037,
	} {
		if got := wholeSeconds(d); got != want {
			t.Errorf("%v goes out as %d s, want %d", d, got, want)
		}
	}
}
