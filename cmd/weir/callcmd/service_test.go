package callcmd

import (
	"bytes"
	"context"
	"net"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// answerer answers the n-th request, counted from 0.
type answerer func(n int, req *rls.RateLimitRequest) (*rls.RateLimitResponse, error)

// fakeService is a rate-limit service with a test's answers. It records the requests.
type fakeService struct {
	rls.UnimplementedRateLimitServiceServer
	answer answerer

	mu    sync.Mutex
	asked []*rls.RateLimitRequest
}

func (f *fakeService) ShouldRateLimit(_ context.Context, req *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	f.mu.Lock()
	n := len(f.asked)
	f.asked = append(f.asked, req)
	f.mu.Unlock()
	return f.answer(n, req)
}

// requests returns the requests so far.
func (f *fakeService) requests() []*rls.RateLimitRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// serveFake runs the service on a free port until the test ends.
func serveFake(t *testing.T, answer answerer, options ...grpc.ServerOption) (*fakeService, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("the fake service needs a port: %v", err)
	}
	return serveOn(t, listener, answer, options...), listener.Addr().String()
}

func serveOn(t *testing.T, listener net.Listener, answer answerer, options ...grpc.ServerOption) *fakeService {
	f, server := &fakeService{answer: answer}, grpc.NewServer(options...)
	rls.RegisterRateLimitServiceServer(server, f)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return f
}

// always answers each request with resp.
func always(resp *rls.RateLimitResponse) answerer {
	return func(int, *rls.RateLimitRequest) (*rls.RateLimitResponse, error) { return resp, nil }
}

// responseOf returns a response with these statuses. It is OVER_LIMIT if one of them is.
func responseOf(statuses ...*rls.RateLimitResponse_DescriptorStatus) *rls.RateLimitResponse {
	resp := &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK, Statuses: statuses}
	for _, s := range statuses {
		if s.Code == rls.RateLimitResponse_OVER_LIMIT {
			resp.OverallCode = s.Code
		}
	}
	return resp
}

// perMinute returns a status under a limit. It is OVER_LIMIT if nothing remains.
func perMinute(limit, remaining uint32, reset time.Duration) *rls.RateLimitResponse_DescriptorStatus {
	s := &rls.RateLimitResponse_DescriptorStatus{
		Code: rls.RateLimitResponse_OK,
		CurrentLimit: &rls.RateLimitResponse_RateLimit{
			RequestsPerUnit: limit, Unit: rls.RateLimitResponse_RateLimit_MINUTE, UnitMultiplier: wrapperspb.UInt32(1),
		},
		LimitRemaining:     remaining,
		DurationUntilReset: durationpb.New(reset),
	}
	if remaining == 0 {
		s.Code = rls.RateLimitResponse_OVER_LIMIT
	}
	return s
}

// runResult is the result of a run of weir call.
type runResult struct {
	stdout, stderr string
	code           int
}

// runCall runs weir call with these flags. Its default --timeout is long, because the machine may be busy.
func runCall(ctx context.Context, t *testing.T, args ...string) runResult {
	t.Helper()
	var line struct {
		Call Command `cmd:""`
	}
	parser, err := kong.New(&line, kong.Vars{"grpc": "127.0.0.1:8081"})
	if err != nil {
		t.Fatalf("kong refuses the flags of weir call: %v", err)
	}
	if _, err := parser.Parse(append([]string{"call", "--timeout", "60s"}, args...)); err != nil {
		t.Fatalf("weir call %q: %v", args, err)
	}
	var stdout, stderr bytes.Buffer
	code, told := terminal.ExitCode(line.Call.Run(ctx, terminal.Output{Out: &stdout, Err: &stderr}))
	if !told {
		t.Fatal("Run did not return a terminal.Exit: main would report the error again")
	}
	return runResult{stdout.String(), stderr.String(), code}
}

var latencies = regexp.MustCompile(`\d+(\.\d+)? ms`)

// hideLatencies replaces latencies, which differ from run to run.
func hideLatencies(s string) string { return latencies.ReplaceAllString(s, "N ms") }
