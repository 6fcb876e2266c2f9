package rls

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

// requests returns requests that together have each kind of field.
func requests(t testing.TB) []*ratelimit.RateLimitRequest {
	d := append(parseDescriptors(t, "user=ann,path=/pay", "remote_address=", "k=v"), new(common.RateLimitDescriptor))
	d[1].HitsAddend, d[2].HitsAddend, d[2].IsNegativeHits = wrapperspb.UInt64(0), wrapperspb.UInt64(math.MaxUint64), true
	var bringing []*common.RateLimitDescriptor
	for _, o := range []*common.RateLimitDescriptor_RateLimitOverride{
		{RequestsPerUnit: 10, Unit: typev3.RateLimitUnit_MINUTE}, {UnitMultiplier: wrapperspb.UInt32(0)}, {RequestsPerUnit: 1, Unit: -1},
		{RequestsPerUnit: math.MaxUint32, Unit: 7, UnitMultiplier: wrapperspb.UInt32(5)},
		{RequestsPerUnit: 1, Unit: 99, UnitMultiplier: wrapperspb.UInt32(math.MaxUint32)}, {},
	} {
		bringing = append(bringing, &common.RateLimitDescriptor{Entries: d[2].Entries, Limit: o})
	}
	return []*ratelimit.RateLimitRequest{{}, {Domain: "shop", HitsAddend: 3, Descriptors: d}, {Domain: "d", Descriptors: bringing},
		{Domain: strings.Repeat("long", 100), Descriptors: parseDescriptors(t, "k="+strings.Repeat("ü", 100))}}
}

// The hand-written decoder must agree with protobuf's on every input, except that it accepts invalid UTF-8.
func FuzzDecodeAgreesWithProtobuf(f *testing.F) {
	for _, r := range requests(f) {
		data := written(f, r)
		f.Add(data)
		f.Add(append(data, data...)) // fields that stand twice
		f.Add(data[:len(data)*2/3])
	}
	f.Add([]byte{0x0a, 0x02, 0xff, 0xfe})                               // invalid UTF-8
	f.Add([]byte{0x08, 0x01, 0x0d, 1, 2, 3, 4, 0x11, 1, 2})             // existing field numbers with other types
	f.Add([]byte{0x0b, 0x0c, 0x13, 0x08, 0x01, 0x14, 0x0c})             // groups
	f.Add(protowire.AppendTag(nil, protowire.MaxValidNumber, 0))        // a field without its value
	f.Add([]byte{0xfa, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}) // a number that is too large
	f.Add([]byte{0x12, 0x0a, 0x12, 0x03, 0x08, 0x05, 0x10, 0x12, 0x03, 0x1a, 0x00, 0x10, 0x02})
	f.Fuzz(func(t *testing.T, data []byte) {
		var want ratelimit.RateLimitRequest
		wantErr := proto.Unmarshal(data, &want)
		var got limit.Call
		got.AddDescriptor().Entries = descriptors.Descriptor{{Key: "left", Value: "over"}}
		got.Reset()
		err := decode(string(data), &got)
		if wantErr != nil && strings.Contains(wantErr.Error(), "invalid UTF-8") {
			for _, d := range got.Descriptors {
				for _, e := range d.Entries {
					if !utf8.ValidString(e.Key + e.Value) {
						t.Fatalf("%q is no UTF-8, and goes where only that may go: into answers, history and logs", e)
					}
				}
			}
			return
		}
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("decode says %v, protobuf says %v", err, wantErr)
		}
		if err == nil {
			compare(t, &got, &want)
		}
	})
}

func compare(t *testing.T, got *limit.Call, want *ratelimit.RateLimitRequest) {
	t.Helper()
	want.Descriptors = want.Descriptors[:min(len(want.Descriptors), limit.MaxDescriptors+1)] // which is too many
	if got.Domain != want.Domain || got.Hits != want.HitsAddend || len(got.Descriptors) != len(want.Descriptors) {
		t.Fatalf("decoded %q, %d hits, %d descriptors; want %q, %d, %d", got.Domain, got.Hits, len(got.Descriptors),
			want.Domain, want.HitsAddend, len(want.Descriptors))
	}
	for i, d := range want.Descriptors {
		w := limit.Descriptor{HasHits: d.HitsAddend != nil, Hits: d.HitsAddend.GetValue(), Refund: d.IsNegativeHits, HasOverride: d.Limit != nil,
			Override: limit.Override{Requests: d.Limit.GetRequestsPerUnit(), HasMultiplier: d.Limit.GetUnitMultiplier() != nil,
				Multiplier: d.Limit.GetUnitMultiplier().GetValue()}}
		if u := d.Limit.GetUnit(); u >= 0 && u <= 7 {
			w.Override.Unit = descriptors.Unit(u)
		}
		for _, e := range d.Entries {
			w.Entries = append(w.Entries, descriptors.Entry{Key: e.Key, Value: e.Value})
		}
		g := got.Descriptors[i]
		g.Entries = append(descriptors.Descriptor(nil), g.Entries...)
		if !reflect.DeepEqual(g, w) {
			t.Fatalf("descriptor %d: %+v; want %+v", i, g, w)
		}
	}
}

// A caller's header with invalid UTF-8 must not bypass the limits of other descriptors, nor of its own.
func TestInvalidUTF8IsCounted(t *testing.T) {
	t.Parallel()
	data := written(t, &ratelimit.RateLimitRequest{Domain: "shop",
		Descriptors: parseDescriptors(t, "user=a??z", "remote_address=10.0.0.1")})
	var c limit.Call
	if err := decode(strings.Replace(string(data), "??", "\xff\xfe", 1), &c); err != nil {
		t.Fatalf("%v: Envoy would let the request pass all its limits", err)
	}
	if user, address := c.Descriptors[0].Entries[0].Value, c.Descriptors[1].Entries[0].Value; user != "a\uFFFDz" || address != "10.0.0.1" {
		t.Errorf("decoded %q and %q, want a\uFFFDz and the address", user, address)
	}
}

// Two bytes of a message make a descriptor of 160 bytes, or an entry of 32 bytes, so their number must be bounded.
func TestEmptyMessagePartsTakeNoMemory(t *testing.T) {
	t.Parallel()
	for part, data := range map[string][]byte{"descriptor": bytes.Repeat([]byte{0x12, 0}, MaxRequest/2),
		"entry": protowire.AppendBytes([]byte{0x12}, bytes.Repeat([]byte{0x0a, 0}, MaxRequest/2-8))} {
		var c limit.Call
		if err := decode(string(data), &c); err != nil {
			t.Fatal(err)
		}
		if d, e := len(c.Descriptors), len(c.Descriptors[0].Entries); d > limit.MaxDescriptors+1 || e > limit.MaxEntries+1 {
			t.Errorf("a message of an empty %s again and again becomes %d descriptors, the first with %d entries; want one more than "+
				"allowed, which is refused", part, d, e)
		}
	}
}
