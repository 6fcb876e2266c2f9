package rls

import (
	"os"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

// The options of FuzzAnswer, as bits.
const (
	spareOthers = 1 << iota
	shadowed
	quotas
	withHeaders
	withRetryAfter
	withMetadata
	bringingFixed // the limits that requests bring
	inPieces      // the message comes in two buffers, and the limits that requests bring are logs unless they are fixed
)

func settings(s byte) (limit.Options, Options) {
	on := func(bit byte) bool { return s&bit != 0 }
	limits := limit.Options{RefundOthers: on(spareOthers), Shadow: on(shadowed), Quota: on(quotas),
		Algorithm: [...]descriptors.Algorithm{0, descriptors.FixedWindow, descriptors.SlidingLog, descriptors.FixedWindow}[s/bringingFixed]}
	o := Options{Headers: Headers{RetryAfter: on(withRetryAfter)}, DynamicMetadata: on(withMetadata)}
	if on(withHeaders) {
		o.Headers.Response, o.Headers.Request = HeaderNames{Limit: "limit", Remaining: "left", Reset: "reset"}, HeaderNames{Limit: "quota"}
	}
	return limits, o
}

// Any bytes as a request, under any settings, get an answer that Envoy can use, or an error about the request. Each
// message is sent three times, seconds apart, so that it reaches limits. FuzzDecodeAgreesWithProtobuf tests decoding, and
// package limit the verdicts.
func FuzzAnswer(f *testing.F) {
	rules, err := os.ReadFile("testdata/everything.yaml") // one of each kind
	if err != nil {
		f.Fatal(err)
	}
	config := fixture.Config(f, string(rules))
	for _, r := range append(requests(f), shopRequests(f)...) {
		data := written(f, r)
		for _, s := range []byte{0, spareOthers, spareOthers | quotas | withHeaders, shadowed | withMetadata,
			spareOthers | inPieces | withHeaders | withRetryAfter | withMetadata} {
			f.Add(s, byte(1), data)
		}
		f.Add(byte(spareOthers), byte(60), data[:len(data)*2/3])
	}
	f.Fuzz(func(t *testing.T, s, seconds byte, data []byte) {
		pieces := [][]byte{data}
		if s&inPieces != 0 {
			pieces = [][]byte{data[:len(data)/3], data[len(data)/3:]}
		}
		limits, o := settings(s)
		w := newWorld(t, config, limits, o)
		var request ratelimit.RateLimitRequest
		want := codes.OK
		switch err := (proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, &request)); {
		case err != nil && strings.Contains(err.Error(), "invalid UTF-8"):
			_, _ = w.answerTo(t.Context(), pieces...)
			return
		case err != nil:
			want = codes.Internal
		case request.Domain == "", len(request.Descriptors) == 0:
			want = codes.InvalidArgument
		}
		for range 3 {
			answer, err := w.answerTo(t.Context(), pieces...)
			if status.Code(err) != want {
				t.Fatalf("%v is answered %v; want %v", &request, err, want)
			}
			if err == nil {
				check(t, &request, answer)
			}
			w.micros.Add(int64(seconds) * 1e6)
		}
	})
}

// check fails the test unless Envoy can use an answer.
func check(t *testing.T, request *ratelimit.RateLimitRequest, answer []byte) {
	t.Helper()
	var got ratelimit.RateLimitResponse
	if err := proto.Unmarshal(answer, &got); err != nil {
		t.Fatalf("%x is no answer: %v", answer, err)
	}
	if err := got.ValidateAll(); err != nil || got.OverallCode == 0 || len(got.ProtoReflect().GetUnknown()) > 0 {
		t.Fatalf("%v is not valid: %v", &got, err)
	}
	if len(got.Statuses) != len(request.Descriptors) {
		t.Fatalf("%d statuses for %d descriptors; Envoy relies on one each", len(got.Statuses), len(request.Descriptors))
	}
	for i, s := range got.Statuses {
		over := s.Code == ratelimit.RateLimitResponse_OVER_LIMIT
		if s.Code == 0 || over && (s.CurrentLimit == nil || s.LimitRemaining > 0) ||
			s.CurrentLimit != nil && s.DurationUntilReset.GetSeconds() < 1 {
			t.Fatalf("status %d of %v is %v; want a code, a limit of which nothing remains where it is over, and a time to wait",
				i, request, s)
		}
	}
}

// shopRequests returns requests that match the rules of everything.
func shopRequests(t testing.TB) (all []*ratelimit.RateLimitRequest) {
	for _, texts := range [][]string{
		{"user=ann", "user=ann,path=/pay/1", "user=ann,path=/"},
		{"user=vip", "any=x", "fixed=x", "user=ann"},
		{"free=", "user=ann", "open=", "nobody="},
		{"log=a", "logs=a", "fine=a", "fixed=a", "fixed=a"},
		{"q1=", "q2=", "tried="},
		{"q1=", "q2=", "shut="},
		{"q1=", "free=", "shade="},
		{"shut=", "huge=", "many=acab"},
	} {
		all = append(all, &ratelimit.RateLimitRequest{Domain: "shop", HitsAddend: uint32(len(all)) / 3,
			Descriptors: parseDescriptors(t, texts...)})
	}
	d := parseDescriptors(t, "user=ann", "any=x", "any=x", "huge=", "shade=", "shade=", "logs=")
	d[0].HitsAddend = wrapperspb.UInt64(0)
	d[1].HitsAddend, d[1].IsNegativeHits = wrapperspb.UInt64(1), true
	d[3].HitsAddend, d[6].HitsAddend = wrapperspb.UInt64(1<<63), wrapperspb.UInt64(1<<20)
	d[4].Limit = &common.RateLimitDescriptor_RateLimitOverride{
		RequestsPerUnit: 1, Unit: typev3.RateLimitUnit_MINUTE, UnitMultiplier: wrapperspb.UInt32(2)}
	noKey := &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{}}}
	d = append(d, new(common.RateLimitDescriptor), noKey)
	return append(all, &ratelimit.RateLimitRequest{Domain: "shop", Descriptors: d},
		&ratelimit.RateLimitRequest{Domain: "nowhere", Descriptors: all[0].Descriptors})
}
