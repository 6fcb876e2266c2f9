package callcmd

import (
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// responseWith returns an answer with dynamic metadata.
func responseWith(said map[string]any, s *rls.RateLimitResponse_DescriptorStatus) *rls.RateLimitResponse {
	a := responseOf(s)
	metadata, err := structpb.NewStruct(said)
	if err != nil {
		panic(err) // a literal
	}
	a.DynamicMetadata = metadata
	return a
}

func TestCallPrintsTextOrJSON(t *testing.T) {
	ask := []string{"--domain", "shop", "--descriptor", "user=ann"}
	two := append(ask, "--descriptor", "user=ann,path=/pay")
	named := perMinute(500, 0, 3*time.Hour+5*time.Minute)
	named.CurrentLimit.Name, named.CurrentLimit.Unit = "per user", rls.RateLimitResponse_RateLimit_HOUR
	named.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(24)
	full := responseOf(perMinute(10, 0, 40500*time.Millisecond))
	full.RawBody = []byte("Too many payments.\nPlease \x1b[31mwait.\n")
	full.ResponseHeadersToAdd = []*corev3.HeaderValue{{Key: "retry-after", Value: "41"}}
	full.RequestHeadersToAdd = []*corev3.HeaderValue{{Key: "x-seen", RawValue: []byte("yes")}}
	passed := &rls.RateLimitResponse_DescriptorStatus{Code: rls.RateLimitResponse_OK}
	unlimited := &rls.RateLimitResponse_DescriptorStatus{Code: rls.RateLimitResponse_OK, LimitRemaining: math.MaxUint32}
	shadow := perMinute(10, 0, 41*time.Second)
	shadow.Code = rls.RateLimitResponse_OK

	for _, c := range []printedAnswer{
		{"under a limit", ask, responseOf(perMinute(10, 9, time.Minute)), `
OK    user=ann  10/minute  9 left  resets in 1m
OK    overall, answered in N ms
`, 0},
		{"over it, with all that the answer carries; control characters are not obeyed", ask, full, `
OVER  user=ann  10/minute  0 left  again in 41s
body  Too many payments.
      Please �[31mwait.
      header retry-after: 41
      upstream header x-seen: yes
OVER  overall, answered in N ms
`, 1},
		{"several descriptors stand in columns", two, responseOf(perMinute(10, 9, 9*time.Second), named), `
OK    user=ann            10/minute              9 left  resets in 9s
OVER  user=ann,path=/pay  500/24hour "per user"  0 left  again in 3h 5m
OVER  overall, answered in N ms
`, 1},
		{"no limit and unlimited are told apart", two, responseOf(passed, unlimited), `
OK    user=ann            no limit applies
OK    user=ann,path=/pay  unlimited
OK    overall, answered in N ms
`, 0},
		{"more hits than the limit can never pass", append(ask, "--hits", "20"), responseOf(perMinute(10, 0, time.Minute)), `
OVER  user=ann  10/minute  0 left  never: 20 hits at once are more than the whole limit
OVER  overall, answered in N ms
`, 1},
		{"a limit of nothing lets nothing pass", ask, responseOf(perMinute(0, 0, time.Minute)), `
OVER  user=ann  0/minute  0 left  never again: this limit lets nothing pass
OVER  overall, answered in N ms
`, 1},
		{"what Redis did not decide says who did", ask, responseWith(map[string]any{"degraded": []any{
			map[string]any{"descriptor": 0, "path": "user", "policy": "deny", "reason": "down"}}}, perMinute(10, 0, time.Second)), `
OVER  user=ann  10/minute  0 left  again in 1s (no answer from the store: down; policy deny)
OVER  overall, answered in N ms
`, 1},
		{"what shadow mode let pass", ask, responseWith(map[string]any{"shadow_denied": map[string]any{
			"rule": "user", "limit": "10/minute", "retry_after": 41}}, shadow), `
OK    user=ann  10/minute  0 left  resets in 41s
      shadow mode: rule user, 10/minute, would have denied it, again in 41s
OK    overall, answered in N ms
`, 0},
		{"why what is over passes", append(ask, "--descriptor", "team=a"), &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK,
			Statuses: []*rls.RateLimitResponse_DescriptorStatus{perMinute(10, 0, time.Minute), passed}}, `
OVER  user=ann  10/minute  0 left  again in 1m; let pass: a quota while another has room, or shadow mode
OK    team=a    no limit applies
OK    overall, answered in N ms
`, 0},
		{"that a domain is unknown, and not only the descriptor", ask, responseWith(map[string]any{"unknown_domain": true}, passed), `
OK    user=ann  the domain is unknown
OK    overall, answered in N ms
`, 2},
		{"a service that gives no statuses still has a verdict", ask, responseOf(), `
OK    overall, answered in N ms
`, 0},
	} {
		t.Run(c.promise, c.check)
	}
}

// printedAnswer is a case: an answer, and the output and exit code of weir call for it.
type printedAnswer struct {
	promise string
	args    []string
	resp    *rls.RateLimitResponse
	want    string
	code    int
}

func (c printedAnswer) check(t *testing.T) {
	t.Parallel()
	_, addr := serveFake(t, always(c.resp))
	got := runCall(t.Context(), t, append([]string{"--addr", addr}, c.args...)...)
	if want := strings.TrimPrefix(c.want, "\n"); hideLatencies(got.stdout) != want {
		t.Errorf("weir call printed\n%s\nwant\n%s", hideLatencies(got.stdout), want)
	}
	told := strings.HasPrefix(got.stderr, "weir call: no file configures the domain \"shop\"")
	if got.code != c.code || told != (c.code == 2) || (got.stderr != "") != told {
		t.Errorf("weir call ended with %d and stderr %q, want %d, and to be told of the unknown domain alone", got.code, got.stderr, c.code)
	}
	answer := new(rls.RateLimitResponse)
	asJSON := runCall(t.Context(), t, append([]string{"--json", "--addr", addr}, c.args...)...)
	if err := protojson.Unmarshal([]byte(asJSON.stdout), answer); err != nil || !proto.Equal(answer, c.resp) ||
		asJSON.code != c.code || strings.Count(asJSON.stdout, "\n") != 1 {
		t.Errorf("with --json it ended with %+v (%v), want %d and a line with the whole answer", asJSON, err, c.code)
	}
}

func TestCallSendsItsFlags(t *testing.T) {
	const ann = `entries {key: "user" value: "ann,x"}`
	for _, c := range []struct {
		promise, flags, want string
	}{
		{"one hit at the request, so that the rule's charge holds", "", `hits_addend: 1 descriptors {` + ann + `}`},
		{"many hits at the request", "--hits 5", `hits_addend: 5 descriptors {` + ann + `}`},
		{"a look is an explicit 0 at the descriptor", "--hits 0", `descriptors {` + ann + ` hits_addend {value: 0}}`},
		{"a refund is negative at the descriptor", "--refund --hits 3",
			`descriptors {` + ann + ` hits_addend {value: 3} is_negative_hits: true}`},
		{"a limit is an override", "--limit 7/hour",
			`hits_addend: 1 descriptors {` + ann + ` limit {requests_per_unit: 7 unit: HOUR}}`},
		{"its multiplier and a week go along", "--limit 7/2week",
			`hits_addend: 1 descriptors {` + ann + ` limit {requests_per_unit: 7 unit: 7 unit_multiplier {value: 2}}}`},
	} {
		t.Run(c.promise, func(t *testing.T) {
			t.Parallel()
			want := &rls.RateLimitRequest{Domain: "shop"}
			if err := prototext.Unmarshal([]byte(`domain: "shop" `+c.want), want); err != nil {
				t.Fatal(err)
			}
			fake, addr := serveFake(t, always(responseOf()))
			runCall(t.Context(), t, append(strings.Fields(c.flags), "--addr", addr, "--domain", "shop", "--descriptor", `user=ann\,x`)...)
			if asked := fake.requests(); len(asked) != 1 || !proto.Equal(asked[0], want) {
				t.Errorf("weir call %s sent %v, want %v", c.flags, asked, want)
			}
		})
	}
}

func TestCallReportsErrorsInOneSentence(t *testing.T) {
	const nobody = "127.0.0.1:1" // which the kernel gives to none of the servers that run beside this
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	refusing := func(code codes.Code, message string) answerer {
		return func(int, *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
			return nil, status.Error(code, message)
		}
	}
	_, unready := serveFake(t, refusing(codes.Unavailable, "no configuration yet"))
	_, slow := serveFake(t, func(int, *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
		<-ended
		return responseOf(), nil
	})
	_, plain := serveFake(t, always(responseOf()))
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	ask := func(addr string, more ...string) []string {
		return append([]string{"--addr", addr, "--domain", "shop", "--descriptor", "user=ann"}, more...)
	}
	for _, c := range []struct {
		promise string
		args    []string
		want    string
	}{
		{"nobody listens", ask(nobody), "cannot reach " + nobody + ": is weir serving there? connection error: "},
		{"an HTTP port", ask(web.Listener.Addr().String()), "name its GRPC_PORT (8081); connection error: "},
		{"no TLS there", ask(plain, "--tls"), "no TLS is spoken there: leave out --tls; connection error: "},
		{"the service is not ready", ask(unready), unready + " answered Unavailable: no configuration yet"},
		{"no answer in time", ask(slow, "--timeout", "50ms"), slow + " did not answer within 50ms"},
		{"a wrong descriptor", ask(nobody, "--descriptor", "user=ann,path"),
			`--descriptor: "path" in "user=ann,path" has no "="`},
		{"a limit without a unit", ask(nobody, "--limit", "10"), `--limit: "10" is not a limit: write 10/minute or 10/5minute`},
		{"an unknown unit", ask(nobody, "--limit", "10/minutes"), `"10/minutes": "minutes" is not a unit: use one of second, minute`},
		{"a limit that is too large", ask(nobody, "--limit", "4294967296/minute"), "value out of range"},
		{"no window at all", ask(nobody, "--limit", "10/0minute"), "unit_multiplier must be at least 1"},
		{"a window that is too long", ask(nobody, "--limit", "10/293year"), "longer than 292 years"},
		{"a refund of nothing", ask(nobody, "--refund", "--hits", "0"), "--refund with --hits 0"},
		{"an address without a port", ask("localhost"), `--addr "localhost" is not HOST:PORT`},
		{"no socket", ask("unix:/nowhere/weir.sock"), "dial unix /nowhere/weir.sock: connect: no such file"},
		{"no time to answer", ask(nobody, "--timeout", "0s"), "--timeout 0s must be above 0"},
		{"a rate that is none", ask(nobody, "--rate", "NaN"), "--rate NaN must lie between 0.001 and 1000"},
		{"a time below zero", ask(nobody, "--for=-1s"), "--for -1s must be above 0"},
		{"a time for one call", ask(nobody, "--for", "2s"), "--for is for many calls: add --rate"},
	} {
		t.Run(c.promise, func(t *testing.T) {
			t.Parallel()
			got := runCall(t.Context(), t, c.args...)
			if got.code != 2 || got.stdout != "" {
				t.Errorf("weir call ended with %d and stdout %q, want 2 and none", got.code, got.stdout)
			}
			sentence, rest, _ := strings.Cut(got.stderr, "\n")
			if !strings.HasPrefix(sentence, "weir call: ") || !strings.Contains(sentence, c.want) || rest != "" {
				t.Errorf("stderr is %q, want one line with %q: it is all that the user has to go by", got.stderr, c.want)
			}
		})
	}
}
