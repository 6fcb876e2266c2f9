package rls

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// Whatever bytes come as a request, under whatever settings, they get an answer that Envoy can use, or an error that is
// theirs. Each message comes three times, so that limits are reached, and seconds pass in between. The same message as
// protobuf writes it gets the same answer, byte for byte. What an answer is to be is tested in package limit.
func FuzzAnswer(f *testing.F) {
	rules, err := os.ReadFile("testdata/everything.yaml") // one of each kind
	if err != nil {
		f.Fatal(err)
	}
	config := fixture.Config(f, string(rules))
	for _, r := range append(requests(), shopping()...) {
		data, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		for _, s := range []byte{0, lookFirst, lookFirst | quotas | withHeaders, shadowed | withMetadata,
			lookFirst | inPieces | withHeaders | withRetryAfter | withMetadata} {
			f.Add(s, byte(1), data)
		}
		f.Add(byte(lookFirst), byte(60), data[:len(data)*2/3])
	}
	f.Fuzz(func(t *testing.T, s, seconds byte, data []byte) {
		var request ratelimit.RateLimitRequest
		unreadable := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, &request)
		if unreadable != nil && strings.Contains(unreadable.Error(), "invalid UTF-8") {
			_, _ = newWorld(t, config, settings(s)).ask(t.Context(), data) // FuzzDecodeAgreesWithProtobuf says what becomes of it
			return
		}
		readable := unreadable == nil
		rewritten, err := proto.Marshal(&request)
		if readable && err != nil {
			t.Fatal(err)
		}
		want := codes.OK
		switch {
		case !readable:
			want = codes.Internal
		case request.Domain == "", len(request.Descriptors) == 0:
			want = codes.InvalidArgument
		}
		asked, canonical := newWorld(t, config, settings(s)), newWorld(t, config, settings(s))
		for range 3 {
			answer, err := asked.ask(t.Context(), data)
			if status.Code(err) != want {
				t.Fatalf("%v (readable: %v) is answered %v; want %v", &request, readable, err, want)
			}
			if err != nil {
				continue
			}
			check(t, &request, answer)
			if again, err := canonical.ask(t.Context(), rewritten); err != nil || !bytes.Equal(again, answer) {
				t.Fatalf("%v is answered\n%x as it came, and\n%x (%v) as protobuf writes it", &request, answer, again, err)
			}
			asked.clock.Add(int64(seconds))
			canonical.clock.Add(int64(seconds))
		}
	})
}

// check fails if an answer is none that Envoy can use.
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

// settings are what a byte switches on.
type settings byte

const (
	lookFirst = 1 << iota
	shadowed
	quotas
	withHeaders
	withRetryAfter
	withMetadata
	bringingFixed // the limits that requests bring
	inPieces      // the message comes in several buffers, and the limits that requests bring are logs unless they are fixed
)

func (s settings) has(one settings) bool { return s&one != 0 }

func (s settings) algorithm() descriptors.Algorithm {
	switch {
	case s.has(bringingFixed):
		return descriptors.FixedWindow
	case s.has(inPieces):
		return descriptors.SlidingLog
	}
	return descriptors.SlidingWindow
}

// deciding returns a limiter of a configuration, on a store in memory that goes by a clock.
func deciding(t testing.TB, config *descriptors.Config, o limit.Options, now func() time.Time) *limit.Limiter {
	t.Helper()
	l := limit.New(fixture.Memory(t, now), o, hits.New(hits.DefaultValues))
	l.Apply(config)
	return l
}

// shopping are requests that meet the rules of everything.
func shopping() (all []*ratelimit.RateLimitRequest) {
	one := func(kv ...string) *common.RateLimitDescriptor {
		d := new(common.RateLimitDescriptor)
		for i := 0; i < len(kv); i += 2 {
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: kv[i], Value: kv[i+1]})
		}
		return d
	}
	with := func(d *common.RateLimitDescriptor, hits uint64, back bool) *common.RateLimitDescriptor {
		d.HitsAddend, d.IsNegativeHits = wrapperspb.UInt64(hits), back
		return d
	}
	own := one("shade", "")
	own.Limit = &common.RateLimitDescriptor_RateLimitOverride{
		RequestsPerUnit: 1, Unit: typev3.RateLimitUnit_MINUTE, UnitMultiplier: wrapperspb.UInt32(2)}
	for _, ds := range [][]*common.RateLimitDescriptor{
		{one("user", "ann"), one("user", "ann", "path", "/pay/1"), one("user", "ann", "path", "/")},
		{one("user", "vip"), one("any", "x"), one("fixed", "x"), one("user", "ann")},
		{one("free", ""), one("user", "ann"), one("open", ""), one("nobody", "")},
		{one("log", "a"), one("logs", "a"), one("fine", "a"), one("fixed", "a"), one("fixed", "a")},
		{one("q1", ""), one("q2", ""), one("tried", "")},
		{one("q1", ""), one("q2", ""), one("shut", "")},
		{one("q1", ""), one("free", ""), one("shade", "")},
		{one("shut", ""), one("huge", ""), one("many", "acab"), one("", ""), one()},
		{with(one("user", "ann"), 0, false), with(one("any", "x"), 1, true), one("any", "x"), with(one("huge", ""), 1<<63, false)},
		{own, one("shade", ""), with(one("logs", ""), 1<<20, false)},
	} {
		all = append(all, &ratelimit.RateLimitRequest{Domain: "shop", HitsAddend: uint32(len(all)) / 3, Descriptors: ds})
	}
	return append(all, &ratelimit.RateLimitRequest{Domain: "nowhere", Descriptors: all[0].Descriptors})
}

// world is a service on a store and a clock of its own.
type world struct {
	settings settings
	service  *Service
	clock    *atomic.Int64 // in seconds
}

func newWorld(t *testing.T, config *descriptors.Config, s settings) *world {
	t.Helper()
	clock := new(atomic.Int64)
	clock.Store(time.Date(2026, 11, 21, 12, 0, 33, 0, time.UTC).Unix())
	l := deciding(t, config, limit.Options{Algorithm: s.algorithm(), LookFirst: s.has(lookFirst), Shadow: s.has(shadowed), Quota: s.has(quotas)},
		func() time.Time { return time.Unix(clock.Load(), 0) })
	headers := Headers{RetryAfter: s.has(withRetryAfter)}
	if s.has(withHeaders) {
		headers.Answer = Names{Limit: "limit", Remaining: "left", Reset: "reset"}
		headers.Request = Names{Limit: "quota"}
	}
	service := New(l, Options{Headers: headers, DynamicMetadata: s.has(withMetadata)}, nobody{})
	return &world{settings: s, service: service, clock: clock}
}

// ask brings a message from the wire to the wire, as grpc does.
func (w *world) ask(ctx context.Context, data []byte) ([]byte, error) {
	codec := NewCodec()
	message := mem.BufferSlice{mem.SliceBuffer(data)}
	if n := len(data) / 3; w.settings.has(inPieces) {
		message = mem.BufferSlice{mem.SliceBuffer(data[:n]), mem.SliceBuffer(data[n:])}
	}
	answer, err := shouldRateLimit(w.service, ctx, func(v any) error {
		if err := codec.Unmarshal(message, v); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		return nil
	}, nil)
	if err != nil {
		return nil, err
	}
	out, err := codec.Marshal(answer)
	return out.Materialize(), err
}
