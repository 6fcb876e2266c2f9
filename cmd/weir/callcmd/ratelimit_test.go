package callcmd

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// runRatelimit runs ratelimit_client with these arguments.
func runRatelimit(ctx context.Context, t *testing.T, arguments ...string) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code, told := terminal.ExitCode(Ratelimit(ctx, arguments, terminal.Output{Out: &stdout, Err: &stderr}))
	if !told {
		t.Fatal("it did not give a terminal.Exit: main would tell the error again")
	}
	return ran{stdout.String(), stderr.String(), code}
}

func TestRatelimitClientAsksAsItsFlagsSay(t *testing.T) {
	service, addr := serveFake(t, always(answered(perMinute(10, 9, 30*time.Second), perMinute(10, 0, 30*time.Second))))
	got := runRatelimit(t.Context(), t, "-dial_string", addr, "--domain=shop", "-descriptors", `user=a\,path=/pay`, "-descriptors", "k=")
	if got.code != 0 || got.stderr != "" {
		t.Fatalf("got %+v; want exit code 0 for any answer", got)
	}
	entry := func(key, value string) *ratelimit.RateLimitDescriptor_Entry {
		return &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value}
	}
	want := &rls.RateLimitRequest{Domain: "shop", HitsAddend: 1, Descriptors: []*ratelimit.RateLimitDescriptor{
		{Entries: []*ratelimit.RateLimitDescriptor_Entry{entry("user", `a\`), entry("path", "/pay")}},
		{Entries: []*ratelimit.RateLimitDescriptor_Entry{entry("k", "")}},
	}}
	if asked := service.requests(); len(asked) != 1 || !proto.Equal(asked[0], want) {
		t.Errorf("it asked %v, want %v once", asked, want)
	}
	for _, want := range []string{`Flag: --domain="shop"`, `Flag: --dial_string="` + addr + `"`, "response: ", "overall_code:", "OVER_LIMIT"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("it prints %q, want %q in it", got.stdout, want)
		}
	}
}

func TestRatelimitClientTellsWhatFails(t *testing.T) {
	_, addr := serveFake(t, always(answered()))
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
	} {
		got := runRatelimit(t.Context(), t, strings.Fields(tc.arguments)...)
		if got.code != tc.code || !strings.Contains(got.stdout, tc.out) || !strings.Contains(got.stderr, tc.err) {
			t.Errorf("%s: got %+v, want %+v", tc.promise, got, tc)
		}
	}
}
