package callcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
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

	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// manyRun is what many calls left behind.
type manyRun struct {
	text  string
	code  int
	asked []*rls.RateLimitRequest
}

// runMany calls many times on the clock of a synctest bubble, where each answer takes so long. A nil answer is a service
// that is away.
func runMany(t *testing.T, takes time.Duration, answer answerer, change func(ctx context.Context, c *Command) context.Context) (got manyRun) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &Command{Addr: "weir:8081", Domain: "shop", Descriptor: []string{"user=ann,path=/pay"}, Hits: 1, Keys: 1,
			Timeout: time.Minute, Concurrency: 16, JSON: true}
		ctx := change(t.Context(), c)
		listener := bufconn.Listen(1 << 16)
		fake := &fakeService{answer: func(n int, req *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
			time.Sleep(takes)
			return answer(n, req)
		}}
		server := grpc.NewServer()
		rls.RegisterRateLimitServiceServer(server, fake)
		go func() { _ = server.Serve(listener) }()
		defer server.Stop()
		conn, err := grpc.NewClient("passthrough:///weir", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				if answer == nil {
					return nil, errors.New("connection refused")
				}
				return listener.DialContext(ctx)
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		asked, err := c.client()
		if err = errors.Join(err, c.checkFlags()); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		asked.ClientConn = conn
		err = asked.callMany(ctx, &out)
		got.code, _ = terminal.ExitCode(err)
		got.text, got.asked = out.String(), fake.requests()
	})
	return got
}

// at sets the rate and the length of many calls.
func at(rate float64, length time.Duration, workers int) func(context.Context, *Command) context.Context {
	return func(ctx context.Context, c *Command) context.Context {
		c.Rate, c.For, c.Concurrency = rate, length, workers
		return ctx
	}
}

// summary decodes the summary, no field of which may be unknown.
func (r manyRun) summary(t *testing.T) (s summary) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(r.text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil || decoder.More() {
		t.Fatalf("stdout is not one summary object: %v\n%s", err, r.text)
	}
	return s
}

func TestManyCallsKeepTheirRateAndSayWhatTheyCouldNotSend(t *testing.T) {
	for _, c := range []struct {
		promise      string
		rate         float64
		length       time.Duration
		workers      int
		takes        time.Duration
		sent, unsent uint64
		lasts        time.Duration
	}{
		{"calls are spread over the time", 50, time.Second, 16, 3 * time.Millisecond, 50, 0, time.Second},
		{"without a rate all workers are used", 0, 500 * time.Millisecond, 4, 20 * time.Millisecond, 100, 0, 500 * time.Millisecond},
		{"a rate that cannot be kept is told, a second after the end", 200, 500 * time.Millisecond, 2, 90 * time.Millisecond, 34, 66, 1535 * time.Millisecond},
	} {
		got := runMany(t, c.takes, always(answered(perMinute(1000, 900, time.Minute))), at(c.rate, c.length, c.workers))
		s := got.summary(t)
		if s.Sent != c.sent || s.Unsent != c.unsent || s.OK != s.Sent || got.code != 0 || uint64(len(got.asked)) != s.Sent {
			t.Errorf("%s: sent %d (%d OK, %d unsent, %d arrived) and ended with %d, want %d, all OK, %d unsent, and 0",
				c.promise, s.Sent, s.OK, s.Unsent, len(got.asked), got.code, c.sent, c.unsent)
		}
		if took := time.Duration(s.Seconds * 1e9).Round(time.Millisecond); took != c.lasts {
			t.Errorf("%s: it took %v, want %v", c.promise, took, c.lasts)
		}
		if l, least := s.Latency, float64(c.takes.Microseconds()); float64(l.P50) < least || float64(l.Max) > least*1.011 {
			t.Errorf("%s: latencies are %+v, where each answer takes %v", c.promise, l, c.takes)
		}
	}
}

func TestManyCallsTakeTurnsAmongKeys(t *testing.T) {
	got := runMany(t, time.Millisecond, always(answered()), func(ctx context.Context, c *Command) context.Context {
		c.Rate, c.For, c.Keys, c.Descriptor = 60, 500*time.Millisecond, 3, append(c.Descriptor, "ip=::1")
		return ctx
	})
	uses := map[string]int{}
	for _, req := range got.asked {
		first, second := req.Descriptors[0].Entries, req.Descriptors[1].Entries
		uses[strings.Join([]string{first[0].Value, first[1].Value, second[0].Value}, " ")]++
	}
	if want := map[string]int{"ann /pay-0 ::1-0": 10, "ann /pay-1 ::1-1": 10, "ann /pay-2 ::1-2": 10}; !maps.Equal(uses, want) {
		t.Errorf("3 keys gave the values %v, want %v: only the last value of each descriptor gets a suffix", uses, want)
	}
}

func TestManyCallsShowALimitBeingHit(t *testing.T) {
	got := runMany(t, time.Millisecond, func(n int, _ *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
		switch {
		case n < 10:
			return answered(perMinute(10, 9-min(8, uint32(n)), time.Minute)), nil
		case n < 20:
			return answered(perMinute(10, 0, 57*time.Second)), nil
		}
		return answered(perMinute(10, 3, 2*time.Second)), nil
	}, func(ctx context.Context, c *Command) context.Context {
		c.Rate, c.For, c.Concurrency, c.JSON = 10, 3*time.Second, 1, false
		return ctx
	})
	const want = `asking weir:8081 about shop user=ann,path=/pay, 10 a second for 3s
    1s  10 sent (10/s), 10 OK, 0 over, 0 errors; last: 10/minute, 1 left, resets in 1m
  1.0s  over: 10/minute, again in 57s
    2s  20 sent (10/s), 10 OK, 10 over, 0 errors; last: 10/minute, again in 57s
  2.0s  OK again: 10/minute, 3 left, resets in 2s
`
	const end = `
30 sent in 3.0s (10.0/s): 20 OK, 10 over, 0 errors
latency  p50 1.00 ms   p90 1.00 ms   p99 1.00 ms   max 1.00 ms
`
	if !strings.HasPrefix(got.text, want) || !strings.HasSuffix(got.text, end) || got.code != 1 { // between them, perhaps a third second
		t.Errorf("weir call printed\n%s\nand ended with %d, want 1 (some were over), at first\n%s\nand at last%s", got.text, got.code, want, end)
	}
}

func TestManyCallsCountErrorsByCode(t *testing.T) {
	got := runMany(t, time.Millisecond, func(n int, _ *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
		switch n % 4 {
		case 0:
			return nil, status.Error(codes.Unavailable, "no configuration yet")
		case 1:
			return nil, status.Errorf(codes.Internal, "broken at %d", n)
		case 2:
			return answered(perMinute(10, 0, time.Second)), nil
		}
		return answered(), nil
	}, at(40, 500*time.Millisecond, 1))
	s := got.summary(t)
	for name, want := range map[string]failure{"Unavailable": {5, "no configuration yet"}, "Internal": {5, "broken at 1"}} {
		if got := s.Errors[name]; got == nil || *got != want {
			t.Errorf("%s is summed up as %+v, want %+v: its count and its first message", name, got, want)
		}
	}
	if s.Failed != 10 || s.OK != 5 || s.Over != 5 || got.code != 2 {
		t.Errorf("%d errors, %d OK, %d over and exit code %d, want 10, 5, 5 and 2: an error outweighs all", s.Failed, s.OK, s.Over, got.code)
	}
}

func TestManyCallsDoNotHammerAServiceThatIsAway(t *testing.T) {
	got := runMany(t, 0, nil, at(0, 200*time.Millisecond, 2))
	s := got.summary(t)
	failed := s.Errors["Unavailable"]
	if got.code != 2 || failed == nil || failed.Count != s.Sent || !strings.Contains(failed.Message, "connection refused") {
		t.Fatalf("ended with %d, %d sent, Unavailable %+v, want 2 and all refused", got.code, s.Sent, failed)
	}
	if most := uint64(2 * 200 * time.Millisecond / pause); s.Sent == 0 || s.Sent > most {
		t.Errorf("2 workers tried %d times in 0.2 s, want at most %d: a call that is refused is followed by a pause", s.Sent, most)
	}
}

func TestManyCallsEndEarlyWithTheirSummary(t *testing.T) {
	var interrupt context.CancelFunc
	got := runMany(t, time.Millisecond, func(n int, _ *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
		if n == 4 {
			interrupt()
			time.Sleep(50 * time.Millisecond)
		}
		return answered(), nil
	}, func(ctx context.Context, c *Command) context.Context {
		c.Rate, c.Concurrency = 100, 1
		ctx, interrupt = context.WithCancel(ctx)
		return ctx
	})
	if s := got.summary(t); s.Sent != 5 || s.OK != 5 || s.Failed != 0 || got.code != 0 {
		t.Errorf("interrupted in its fifth call, weir call says %d sent, %d OK, %d errors, exit code %d, "+
			"want 5, 5, 0, 0: a call under way is not cut short", s.Sent, s.OK, s.Failed, got.code)
	}
}
