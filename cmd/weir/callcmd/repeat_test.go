package callcmd

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
)

// repeatResult is the result of weir call with --rate.
type repeatResult struct {
	text string
	err  error
	took time.Duration
}

// runRepeated calls many times in a synctest bubble, in which each answer takes a millisecond. answer may call interrupt,
// to end the calls as Ctrl-C does.
func runRepeated(t *testing.T, c Command, answer func(n int, interrupt func()) (*rls.RateLimitResponse, error)) (got repeatResult) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		listener := bufconn.Listen(1 << 16)
		serveOn(t, listener, func(n int, _ *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
			time.Sleep(time.Millisecond)
			return answer(n, interrupt)
		})
		conn, err := grpc.NewClient("passthrough:///weir", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		c.Addr, c.Domain, c.Descriptor, c.Hits, c.Timeout = "weir:8081", "shop", []string{"user=ann,path=/pay", "plan=gold"}, 1, time.Minute
		asked, err := c.client()
		if err = errors.Join(err, c.checkFlags()); err != nil {
			t.Fatal(err)
		}
		asked.ClientConn = conn
		var out bytes.Buffer
		begin := time.Now()
		got.err = asked.callRepeatedly(ctx, &out)
		got.took, got.text = time.Since(begin), out.String()
	})
	return got
}

func TestManyCallsShowALimitBeingHit(t *testing.T) {
	got := runRepeated(t, Command{Rate: 10, For: 3 * time.Second}, func(n int, _ func()) (*rls.RateLimitResponse, error) {
		switch {
		case n < 10:
			return responseOf(perMinute(10, 9-min(8, uint32(n)), time.Minute)), nil
		case n < 20:
			return responseOf(perMinute(50, 9, time.Second), perMinute(10, 0, 57*time.Second)), nil
		}
		return responseOf(perMinute(10, 3, 2*time.Second)), nil
	})
	const want = `  0.0s  OK    10/minute, 9 left, resets in 1m  (1 sent: 1 OK, 0 over, 0 errors)
  1.0s  OVER  plan=gold: 10/minute, 0 left, again in 57s  (11 sent: 10 OK, 1 over, 0 errors)
  2.0s  OK    10/minute, 3 left, resets in 2s  (21 sent: 11 OK, 10 over, 0 errors)

30 sent: 20 OK, 10 over, 0 errors, in 3.0s
latency  p50 1.00 ms   p99 1.00 ms   max 1.00 ms
`
	if got.text != want || got.err == nil || got.err.Error() != "exit code 1" || got.took != 3*time.Second {
		t.Errorf("weir call printed\n%s\nand ended with %v after %v, want exit code 1 (some were over) after 3s, and\n%s", got.text, got.err, got.took, want)
	}
}

func TestManyCallsContinueAfterErrors(t *testing.T) {
	got := runRepeated(t, Command{Rate: 40, For: 500 * time.Millisecond}, func(n int, _ func()) (*rls.RateLimitResponse, error) {
		switch n % 4 {
		case 0:
			return nil, status.Error(codes.Unavailable, "no configuration yet")
		case 1:
			return nil, status.Errorf(codes.Internal, "broken at %d", n)
		}
		return responseOf(), nil
	})
	const want = "10 of 20 calls failed; the first: weir:8081 answered Unavailable: no configuration yet"
	if got.err == nil || got.err.Error() != want || !strings.Contains(got.text, "20 sent: 10 OK, 0 over, 10 errors, in 0.5s\n") {
		t.Errorf("weir call printed\n%s\nand ended with %q, want 20 calls and %q", got.text, got.err, want)
	}
}

func TestInterruptedCallsPrintEachAnswer(t *testing.T) {
	got := runRepeated(t, Command{Rate: 100, JSON: true}, func(n int, interrupt func()) (*rls.RateLimitResponse, error) {
		if n == 4 {
			interrupt()
			time.Sleep(50 * time.Millisecond)
		}
		return responseOf(perMinute(10, 9, time.Minute)), nil
	})
	lines := strings.Split(strings.TrimSpace(got.text), "\n")
	if len(lines) != 5 || got.err != nil {
		t.Errorf("interrupted in its fifth call, weir call printed %q and ended with %v, want 5 answers: a call under way is not cut short", lines, got.err)
	}
	for _, line := range lines {
		var a rls.RateLimitResponse
		if err := protojson.Unmarshal([]byte(line), &a); err != nil || a.GetOverallCode() != rls.RateLimitResponse_OK || len(a.GetStatuses()) != 1 {
			t.Errorf("%s: %v, want an answer as of one call", line, err)
		}
	}
}

func TestManyCallsForAnUnknownDomainFail(t *testing.T) {
	got := runRepeated(t, Command{Rate: 2, For: time.Second}, func(int, func()) (*rls.RateLimitResponse, error) {
		return responseWith(map[string]any{"unknown_domain": true}, &rls.RateLimitResponse_DescriptorStatus{}), nil
	})
	if got.err == nil || !strings.HasPrefix(got.err.Error(), "no file configures the domain \"shop\"") ||
		!strings.Contains(got.text, "the domain is unknown  (") {
		t.Errorf("weir call printed\n%s\nand ended with %v, want to be told that the domain is unknown", got.text, got.err)
	}
}
