package main

import (
	"bytes"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

func TestVerdictIsTheOverallCode(t *testing.T) {
	const ok, over = ratelimit.RateLimitResponse_OK, ratelimit.RateLimitResponse_OVER_LIMIT
	status := &ratelimit.RateLimitResponse_DescriptorStatus{Code: over}
	encode := func(r *ratelimit.RateLimitResponse) []byte {
		b, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	statuses := encode(&ratelimit.RateLimitResponse{Statuses: []*ratelimit.RateLimitResponse_DescriptorStatus{status}})
	for _, c := range []struct {
		name  string
		reply []byte
		want  ratelimit.RateLimitResponse_Code
	}{
		{"ok", encode(&ratelimit.RateLimitResponse{OverallCode: ok}), ok},
		{"over", encode(&ratelimit.RateLimitResponse{OverallCode: over, RawBody: []byte("slow down")}), over},
		{"a status is not the overall code", statuses, ratelimit.RateLimitResponse_UNKNOWN},
		{"the code may stand behind the statuses", append(bytes.Clone(statuses), 0x08, 0x01), ok},
		{"empty", nil, ratelimit.RateLimitResponse_UNKNOWN},
		{"torn", []byte{0x08}, ratelimit.RateLimitResponse_UNKNOWN},
		{"not a message", []byte{0xff, 0xff}, ratelimit.RateLimitResponse_UNKNOWN},
	} {
		if got := verdict(c.reply); got != c.want {
			t.Errorf("%s: the verdict of %x is %s, want %s", c.name, c.reply, got, c.want)
		}
	}
}

func TestRawCodecHandsBytesThrough(t *testing.T) {
	sent, err := rawCodec{}.Marshal([]byte("request"))
	if err != nil || string(sent.Materialize()) != "request" {
		t.Errorf("sent %q, error %v; want the bytes as they were", sent.Materialize(), err)
	}
	reply := []byte("an older and longer reply")
	parts := mem.BufferSlice{mem.SliceBuffer("two "), mem.SliceBuffer("parts")}
	if err := (rawCodec{}).Unmarshal(parts, &reply); err != nil || string(reply) != "two parts" {
		t.Errorf("received %q, error %v; want \"two parts\" and nothing of the older reply", reply, err)
	}
	if _, err := (rawCodec{}).Marshal("text"); err == nil {
		t.Error("a string was sent: only encoded messages may be")
	}
	if err := (rawCodec{}).Unmarshal(parts, "text"); err == nil {
		t.Error("a reply was received into a string: only a *[]byte can hold it")
	}
}
