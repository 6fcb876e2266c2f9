package dropin_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// flood sends hits of domains that are unknown, numbered from one to before another, and perDomain times as many
// overrides of limits of one that is not, and waits for the answers.
func flood(t *testing.T, r *replica, from, to, perDomain int) {
	t.Helper()
	const connections, calls, perCall = 4, 16, 100
	unknown := newMold(t, &rlspb.RateLimitRequest{
		Domain: "unknown-" + blank, Descriptors: []*descriptorpb.RateLimitDescriptor{describe("plan", "basic")},
	})
	theirs := describe("plan", "theirs", "user", blank)
	theirs.Limit = &descriptorpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 10, Unit: typepb.RateLimitUnit_SECOND}
	override := newMold(t, &rlspb.RateLimitRequest{
		Domain: "shop", Descriptors: slices.Repeat([]*descriptorpb.RateLimitDescriptor{theirs}, perCall),
	})
	var domains, overrides atomic.Int64
	domains.Store(int64(from))
	overrides.Store(int64(from * perDomain))
	var running sync.WaitGroup
	for range connections {
		conn := dial(t, r.grpc)
		send := func(m mold, next *atomic.Int64, end int) {
			running.Go(func() {
				step := int64(len(m.blanks))
				for n := next.Add(step) - step; n < int64(end); n = next.Add(step) - step {
					if err := m.send(conn, n); err != nil {
						t.Errorf("asking weir: %v", err)
						return
					}
				}
			})
		}
		for range calls {
			send(unknown, &domains, to)
		}
		send(override, &overrides, to*perDomain)
	}
	running.Wait()
}

// blank is where a mold takes a number.
const blank = "########"

// mold is a request, encoded once. To encode and decode a million of them costs a client with the race detector more than
// it costs weir to answer.
type mold struct {
	text   []byte
	blanks []int // where they are
	want   int   // how many statuses answer it
}

func newMold(t *testing.T, request *rlspb.RateLimitRequest) mold {
	t.Helper()
	text, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	m := mold{text: text, want: len(request.Descriptors)}
	for at := 0; ; at += len(blank) {
		next := bytes.Index(text[at:], []byte(blank))
		if next < 0 {
			return m
		}
		at += next
		m.blanks = append(m.blanks, at)
	}
}

// send asks with consecutive numbers in the blanks. It complains unless each descriptor is answered and all is OK.
func (m mold) send(conn *grpc.ClientConn, n int64) error {
	request, answer := slices.Clone(m.text), []byte(nil)
	for i, at := range m.blanks {
		copy(request[at:], fmt.Appendf(nil, "%0*d", len(blank), n+int64(i)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	err := conn.Invoke(ctx, rlspb.RateLimitService_ShouldRateLimit_FullMethodName, &request, &answer, grpc.ForceCodec(encoded{}))
	if err != nil || n%1000 != 0 { // to decode each is not for the client either
		return err
	}
	var decoded rlspb.RateLimitResponse
	if err := proto.Unmarshal(answer, &decoded); err != nil {
		return err
	}
	if decoded.OverallCode != rlspb.RateLimitResponse_OK || len(decoded.Statuses) != m.want {
		return fmt.Errorf("%d descriptors are answered %v, want OK", m.want, &decoded)
	}
	return nil
}

// encoded is a codec of messages that are *[]byte.
type encoded struct{}

// Name is the codec's whose messages they are.
func (encoded) Name() string { return "proto" }

// Marshal returns the bytes.
func (encoded) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

// Unmarshal keeps the bytes.
func (encoded) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = slices.Clone(data)
	return nil
}
