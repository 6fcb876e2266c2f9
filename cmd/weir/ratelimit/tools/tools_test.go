package tools

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// service answers each request alike and remembers them.
type service struct {
	rls.UnimplementedRateLimitServiceServer
	asked []*rls.RateLimitRequest
}

func (s *service) ShouldRateLimit(_ context.Context, r *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	s.asked = append(s.asked, r)
	return &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OVER_LIMIT}, nil
}

// serve starts the service until the test ends.
func serve(t *testing.T) (s *service, addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, server := new(service), grpc.NewServer()
	rls.RegisterRateLimitServiceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return s, listener.Addr().String()
}

// runClient runs ratelimit_client with these arguments.
func runClient(t *testing.T, arguments ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	code, told := terminal.ExitCode(Client(t.Context(), arguments, terminal.Output{Out: &out, Err: &err}))
	if !told {
		t.Fatal("it did not give a terminal.Exit: main would tell the error again")
	}
	return out.String(), err.String(), code
}

func TestClientSendsItsFlags(t *testing.T) {
	s, addr := serve(t)
	stdout, stderr, code := runClient(t, "-dial_string", addr, "--domain=shop", "-descriptors", `user=a\,path=/pay`, "-descriptors", "k=")
	if code != 0 || stderr != "" {
		t.Fatalf("it ended with %d and %q; want exit code 0 for any answer", code, stderr)
	}
	entry := func(key, value string) *ratelimit.RateLimitDescriptor_Entry {
		return &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value}
	}
	want := &rls.RateLimitRequest{Domain: "shop", HitsAddend: 1, Descriptors: []*ratelimit.RateLimitDescriptor{
		{Entries: []*ratelimit.RateLimitDescriptor_Entry{entry("user", `a\`), entry("path", "/pay")}},
		{Entries: []*ratelimit.RateLimitDescriptor_Entry{entry("k", "")}},
	}}
	if len(s.asked) != 1 || !proto.Equal(s.asked[0], want) {
		t.Errorf("it asked %v, want %v once", s.asked, want)
	}
	for _, want := range []string{`Flag: --domain="shop"`, `Flag: --dial_string="` + addr + `"`, "response: ", "overall_code:", "OVER_LIMIT"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("it prints %q, want %q in it", stdout, want)
		}
	}
}

func TestClientReportsErrors(t *testing.T) {
	_, addr := serve(t)
	for _, tc := range []struct {
		promise   string
		arguments string
		code      int
		out, err  string
	}{
		{"nobody there is 1", "-dial_string 127.0.0.1:1 -domain d -descriptors k=v", 1, "request error: ", ""},
		{"a flag that is none is 2", "-adress " + addr, 2, "", "flag provided but not defined: -adress"},
		{"a descriptor has keys and values", "-descriptors k", 2, "", `the entry "k" is not KEY=VALUE`},
		{"no value has an =", "-descriptors k=v=w", 2, "", "is not KEY=VALUE"},
		{"help is 0", "-h", 0, "", "-dial_string"},
		{"missing authorities are 1", "-dial_string " + addr + " -grpc-use-tls -grpc-server-ca-file /nowhere/ca.crt", 1, "/nowhere/ca.crt", ""},
		{"a certificate needs its key", "-dial_string " + addr + " -grpc-use-tls -grpc-cert-file /nowhere/tls.crt", 1, "go together", ""},
		{"and the key its certificate", "-dial_string " + addr + " -grpc-use-tls -grpc-key-file /nowhere/tls.key", 1, "go together", ""},
	} {
		stdout, stderr, code := runClient(t, strings.Fields(tc.arguments)...)
		if code != tc.code || !strings.Contains(stdout, tc.out) || !strings.Contains(stderr, tc.err) {
			t.Errorf("%s: it ended with %d, %q and %q, want %+v", tc.promise, code, stdout, stderr, tc)
		}
	}
}
