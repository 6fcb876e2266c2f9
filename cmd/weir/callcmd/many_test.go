package callcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// summaryOf calls many times with --json and decodes the summary, no field of which may be unknown.
func summaryOf(ctx context.Context, t *testing.T, addr string, args ...string) (summary, int) {
	t.Helper()
	flags := []string{"--json", "--addr", addr, "--domain", "shop", "--descriptor", "user=ann,path=/pay"}
	got := runCall(ctx, t, append(flags, args...)...)
	var s summary
	decoder := json.NewDecoder(strings.NewReader(got.stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil || decoder.More() {
		t.Fatalf("stdout is not one summary object: %v\n%s", err, got.stdout)
	}
	return s, got.code
}

func TestManyCallsKeepsItsRate(t *testing.T) {
	t.Parallel()
	fake, addr := serveFake(t, always(answered(perMinute(1000, 900, time.Minute))))
	s, code := summaryOf(t.Context(), t, addr, "--rate", "50", "--for", "1s")
	if s.Sent+s.Unsent != 50 || s.Sent < 45 || s.OK != s.Sent || code != 0 {
		t.Errorf("50 a second for 1 s sent %d (%d OK, %d unsent) and ended with %d, want 50, all OK, and 0",
			s.Sent, s.OK, s.Unsent, code)
	}
	if asked := len(fake.requests()); uint64(asked) != s.Sent {
		t.Errorf("the service was asked %d times, the summary says %d", asked, s.Sent)
	}
	if s.Seconds < 1 || s.Rate > 50 {
		t.Errorf("the calls took %.2f s at %.1f a second, want 1 s or more: calls must be spread over the time",
			s.Seconds, s.Rate)
	}
	if l := s.Latency; l.P50 <= 0 || l.P50 > l.P90 || l.P90 > l.P99 || l.P99 > l.Max {
		t.Errorf("latencies %+v do not rise from p50 to max", l)
	}
	var drawn uint64
	for _, n := range s.Timeline.OK {
		drawn += n
	}
	if drawn != s.Sent || s.Timeline.WidthSeconds != 1 {
		t.Errorf("the timeline holds %d calls in columns of %v s, want %d in columns of 1 s",
			drawn, s.Timeline.WidthSeconds, s.Sent)
	}
}

func TestManyCallsWithoutARateUsesAllWorkers(t *testing.T) {
	t.Parallel()
	_, addr := serveFake(t, func(int, *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
		time.Sleep(20 * time.Millisecond)
		return answered(), nil
	})
	s, code := summaryOf(t.Context(), t, addr, "--for", "500ms", "--concurrency", "4")
	if s.Sent < 8 || s.Sent > 104 || code != 0 {
		t.Errorf("4 workers at 20 ms a call sent %d in 0.5 s and ended with %d, want about 100 and 0", s.Sent, code)
	}
}

func TestManyCallsTellsWhatItCouldNotSend(t *testing.T) {
	t.Parallel()
	_, addr := serveFake(t, func(int, *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
		time.Sleep(100 * time.Millisecond)
		return answered(), nil
	})
	s, _ := summaryOf(t.Context(), t, addr, "--rate", "200", "--for", "500ms", "--concurrency", "2")
	if s.Sent+s.Unsent != 100 || s.Unsent < 50 {
		t.Errorf("2 workers at 100 ms a call sent %d of 100 and told of %d unsent: a rate that was not kept must be said",
			s.Sent, s.Unsent)
	}
}

func TestManyCallsTakesTurnsAmongKeys(t *testing.T) {
	t.Parallel()
	fake, addr := serveFake(t, always(answered()))
	s, _ := summaryOf(t.Context(), t, addr, "--rate", "60", "--for", "500ms", "--keys", "3", "--descriptor", "ip=::1")
	uses := map[string]int{}
	for _, req := range fake.requests() {
		first, second := req.Descriptors[0].Entries, req.Descriptors[1].Entries
		uses[fmt.Sprintf("%s %s %s", first[0].Value, first[1].Value, second[0].Value)]++
	}
	want := []string{"ann /pay-0 ::1-0", "ann /pay-1 ::1-1", "ann /pay-2 ::1-2"}
	if got := slices.Sorted(maps.Keys(uses)); !slices.Equal(got, want) {
		t.Fatalf("3 keys gave the values %q, want %q: only the last value of each descriptor gets a suffix", got, want)
	}
	for values, n := range uses {
		if most := int(s.Sent)/3 + 1; n > most {
			t.Errorf("%s was asked about %d times of %d, want at most %d", values, n, s.Sent, most)
		}
	}
}

var tookAtRate = regexp.MustCompile(`in \d\.\ds \([\d.]+/s\):`)

var clocks = regexp.MustCompile(`(?m)^ +[\d.]+s  `)

func TestManyCallsShowsALimitBeingHit(t *testing.T) {
	t.Parallel()
	_, addr := serveFake(t, func(n int, _ *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
		switch {
		case n < 10:
			return answered(perMinute(10, 9-min(8, uint32(n)), time.Minute)), nil
		case n < 20:
			return answered(perMinute(10, 0, 57*time.Second)), nil
		}
		return answered(perMinute(10, 3, 2*time.Second)), nil
	})
	got := runCall(t.Context(), t, "--addr", addr, "--domain", "shop", "--descriptor", "user=ann",
		"--rate", "10", "--for", "3s", "--concurrency", "1")
	text := tookAtRate.ReplaceAllString(clocks.ReplaceAllString(steady(got.stdout), "T "), "in T:")
	lines := strings.Split(text, "\n")
	for _, want := range []string{
		"asking " + addr + " about shop user=ann, 10 a second for 3s",
		"T over: 10/minute, again in 57s",
		"T OK again: 10/minute, 3 left, resets in 2s",
		"30 sent in T: 20 OK, 10 over, 0 errors",
		"latency  p50 N ms   p90 N ms   p99 N ms   max N ms",
	} {
		if n := len(slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return line != want })); n != 1 {
			t.Errorf("the line %q is there %d times, want once, in\n%s", want, n, got.stdout)
		}
	}
	progress := regexp.MustCompile(`(?m)^    [1-4]s  \d+ sent \(\d+/s\), \d+ OK, \d+ over, 0 errors; last: 10/minute, .*$`)
	if n := len(progress.FindAllString(got.stdout, -1)); n < 1 || n > 4 {
		t.Errorf("there are %d progress lines for 3 s, want one a second, in\n%s", n, got.stdout)
	}
	drawn := regexp.MustCompile(`(?m)^(OK|over|errors) +\|`).FindAllString(got.stdout, -1)
	if !slices.Equal(drawn, []string{"OK     |", "over   |"}) {
		t.Errorf("the timeline must have a row for OK and for over, none for errors, in\n%s", got.stdout)
	}
	if strings.Contains(got.stdout, "\x1b") || strings.Contains(got.stdout, "\r") {
		t.Errorf("what goes to no terminal must hold no control characters: %q", got.stdout)
	}
	if got.code != 1 || got.stderr != "" {
		t.Errorf("weir call ended with %d and stderr %q, want 1 (some were over) and none", got.code, got.stderr)
	}
}

func TestManyCallsCountsErrorsByCode(t *testing.T) {
	t.Parallel()
	_, addr := serveFake(t, func(n int, _ *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
		switch n % 4 {
		case 0:
			return nil, status.Error(codes.Unavailable, "no configuration yet")
		case 1:
			return nil, status.Errorf(codes.Internal, "broken at %d", n)
		case 2:
			return answered(perMinute(10, 0, time.Second)), nil
		}
		return answered(), nil
	})
	s, code := summaryOf(t.Context(), t, addr, "--rate", "40", "--for", "500ms", "--concurrency", "1")
	want := map[string]failure{"Unavailable": {5, "no configuration yet"}, "Internal": {5, "broken at 1"}}
	for name, w := range want {
		if got := s.ErrorCode[name]; got == nil || *got != w {
			t.Errorf("%s is summed up as %+v, want %+v: its count and its first message", name, got, w)
		}
	}
	if s.Failed != 10 || s.OK != 5 || s.Over != 5 || code != 2 {
		t.Errorf("%d errors, %d OK, %d over and exit code %d, want 10, 5, 5 and 2: an error outweighs all",
			s.Failed, s.OK, s.Over, code)
	}
}

func TestManyCallsOutlivesAServiceThatIsAway(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	s, code := summaryOf(t.Context(), t, listener.Addr().String(), "--for", "200ms", "--concurrency", "2")
	failed := s.ErrorCode["Unavailable"]
	if code != 2 || failed == nil || failed.Count != s.Sent || !strings.Contains(failed.Message, "connection refused") {
		t.Fatalf("ended with %d, %d sent, Unavailable %+v, want 2 and all refused", code, s.Sent, failed)
	}
	if s.Sent > 100 {
		t.Errorf("2 workers tried %d times in 0.2 s: a service that is away must not be hammered", s.Sent)
	}
}

func TestManyCallsEndsEarlyWithItsSummary(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	_, addr := serveFake(t, func(n int, _ *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
		if n == 4 {
			cancel()
			time.Sleep(50 * time.Millisecond)
		}
		return answered(), nil
	})
	s, code := summaryOf(ctx, t, addr, "--rate", "100", "--concurrency", "1")
	if s.Sent != 5 || s.OK != 5 || s.Failed != 0 || code != 0 {
		t.Errorf("interrupted in its fifth call, weir call says %d sent, %d OK, %d errors, exit code %d, "+
			"want 5, 5, 0, 0: a call under way is not cut short", s.Sent, s.OK, s.Failed, code)
	}
}
