package main

import (
	"fmt"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// rawCodec sends bytes that are encoded already and hands replies over undecoded, so that the client leaves the
// machine to the server.
type rawCodec struct{}

// Marshal takes a []byte as it is.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("raw codec: cannot send a %T, only a []byte", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

// Unmarshal copies the message into the *[]byte v, whose memory it uses again.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("raw codec: cannot receive into a %T, only into a *[]byte", v)
	}
	*b = (*b)[:0]
	for _, part := range data {
		*b = append(*b, part.ReadOnlyData()...)
	}
	return nil
}

// Name is empty so that the content type is a plain application/grpc, as Envoy sends it.
func (rawCodec) Name() string { return "" }

// verdict reads the overall code from an encoded RateLimitResponse and steps over the rest. A reply that is not a
// message, or has no code, is UNKNOWN.
func verdict(reply []byte) ratelimit.RateLimitResponse_Code {
	const overallCode = 1
	code := ratelimit.RateLimitResponse_UNKNOWN
	for len(reply) > 0 {
		field, wire, n := protowire.ConsumeTag(reply)
		if n < 0 {
			return ratelimit.RateLimitResponse_UNKNOWN
		}
		reply = reply[n:]
		if field == overallCode && wire == protowire.VarintType {
			value, _ := protowire.ConsumeVarint(reply)
			code = ratelimit.RateLimitResponse_Code(value)
		}
		if n = protowire.ConsumeFieldValue(field, wire, reply); n < 0 {
			return ratelimit.RateLimitResponse_UNKNOWN
		}
		reply = reply[n:]
	}
	return code
}
