package server

import (
	"maps"
	"strconv"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/rls"
)

// serving returns a client of a server that answers by these options from these rules of the domain shop.
func serving(t *testing.T, options rls.Options, rules string) ratelimit.RateLimitServiceClient {
	t.Helper()
	r := startWith(t, Config{}, limit.Options{Algorithm: descriptors.SlidingWindow}, options)
	r.apply(t, "domain: shop\ndescriptors:\n"+rules)
	return ratelimit.NewRateLimitServiceClient(r.conn)
}

func (r *running) apply(t testing.TB, text string) {
	t.Helper()
	config, problems := yaml.Parse([]yaml.File{{Name: "shop.yaml", Data: []byte(text)}}, yaml.Options{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	r.limiter.Apply(config)
	r.health.Configured(config.Domains())
}

// shopping asks for one hit each of descriptors with these keys.
func shopping(keys ...string) *ratelimit.RateLimitRequest {
	r := &ratelimit.RateLimitRequest{Domain: "shop"}
	for _, key := range keys {
		r.Descriptors = append(r.Descriptors, &common.RateLimitDescriptor{
			Entries: []*common.RateLimitDescriptor_Entry{{Key: key, Value: "v"}}})
	}
	return r
}

func asked(t *testing.T, c ratelimit.RateLimitServiceClient, r *ratelimit.RateLimitRequest) *ratelimit.RateLimitResponse {
	t.Helper()
	answer, err := c.ShouldRateLimit(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// headersOf returns an answer's headers by name; those of times only tell whether they are from 1 to an hour and a
// minute.
func headersOf(t *testing.T, answer *ratelimit.RateLimitResponse) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, h := range answer.ResponseHeadersToAdd {
		if _, twice := all[h.Key]; twice {
			t.Errorf("header %s comes twice", h.Key)
		}
		all[h.Key] = h.Value
		if h.Key == "reset" || h.Key == "retry-after" {
			if s, err := strconv.Atoi(h.Value); err == nil && s > 0 && s <= 3660 {
				all[h.Key] = "soon"
			}
		}
	}
	return all
}

func TestShadowModeRefusesNothingAndStillSaysWhatIsOver(t *testing.T) {
	r := startWith(t, Config{}, limit.Options{Algorithm: descriptors.SlidingWindow, Shadow: true},
		rls.Options{Headers: rls.Headers{Answer: rls.Names{Remaining: "left"}, RetryAfter: true}})
	r.apply(t, "domain: shop\ndescriptors:\n"+twoAnHour)
	c := ratelimit.NewRateLimitServiceClient(r.conn)
	for i, want := range []ratelimit.RateLimitResponse_Code{1, 1, 2, 2} {
		got := asked(t, c, shopping("many", "user"))
		if got.OverallCode != ratelimit.RateLimitResponse_OK || got.Statuses[1].Code != want || len(got.RawBody) > 0 {
			t.Errorf("request %d: %v; want it to pass, with %v for the user", i+1, got, want)
		}
		if h := headersOf(t, got); len(h) != 1 {
			t.Errorf("request %d: headers %v; want what is left, and no retry-after where nothing is refused", i+1, h)
		}
	}
}

const twoAnHour = `
- {key: user, rate_limit: {requests_per_unit: 2, unit: hour}}
- {key: many, rate_limit: {requests_per_unit: 100, unit: hour}}
- {key: free, rate_limit: {unlimited: true}}
`

func TestHeadersAreSentOnlyIfAskedFor(t *testing.T) {
	named := rls.Headers{Answer: rls.Names{Limit: "limit", Remaining: "left", Reset: "reset"}}
	both := named
	both.RetryAfter = true
	left := func(n string) map[string]string { return map[string]string{"limit": "2", "left": n, "reset": "soon"} }
	refused := left("0")
	refused["retry-after"] = "soon"
	for name, tc := range map[string]struct {
		headers rls.Headers
		want    [3]map[string]string // of three requests in a row, of which the third is refused
	}{
		"nothing":     {rls.Headers{}, [3]map[string]string{}},
		"limits":      {named, [3]map[string]string{left("1"), left("0"), left("0")}},
		"retry after": {rls.Headers{RetryAfter: true}, [3]map[string]string{{}, {}, {"retry-after": "soon"}}},
		"both":        {both, [3]map[string]string{left("1"), left("0"), refused}},
		"one name":    {rls.Headers{Answer: rls.Names{Remaining: "left"}}, [3]map[string]string{{"left": "1"}, {"left": "0"}, {"left": "0"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := serving(t, rls.Options{Headers: tc.headers}, twoAnHour)
			if got := headersOf(t, asked(t, c, shopping("free", "nothing"))); len(got) > 0 {
				t.Errorf("%v where no limit applies; want none", got)
			}
			for i, want := range tc.want {
				if got := headersOf(t, asked(t, c, shopping("many", "user", "free"))); !maps.Equal(got, want) {
					t.Errorf("request %d: %v; want %v", i+1, got, want)
				}
			}
		})
	}
}

// A client that is told to come again although it can never pass would come for ever.
func TestWhatCanNeverPassIsNotToldToRetry(t *testing.T) {
	c := serving(t, rls.Options{Headers: rls.Headers{RetryAfter: true}}, twoAnHour)
	huge := shopping("user")
	huge.Descriptors[0].HitsAddend = wrapperspb.UInt64(3)
	answer := asked(t, c, huge)
	if got := headersOf(t, answer); answer.OverallCode != ratelimit.RateLimitResponse_OVER_LIMIT || len(got) > 0 {
		t.Errorf("3 hits of 2 an hour: %v with %v; want a denial without retry-after", answer.OverallCode, got)
	}
}

// The service behind Envoy is told on its own, under names of its own, whatever the caller is told.
func TestTheServiceBehindEnvoyIsToldWhatIsLeft(t *testing.T) {
	to := rls.Headers{Answer: rls.Names{Remaining: "left"}, Request: rls.Names{Limit: "quota", Remaining: "quota-left"}}
	c := serving(t, rls.Options{Headers: to}, twoAnHour)
	for i, left := range []string{"1", "0", "0"} { // the third is refused
		answer := asked(t, c, shopping("many", "user", "free"))
		if got, want := headersOf(t, answer), map[string]string{"left": left}; !maps.Equal(got, want) {
			t.Errorf("request %d: the answer gets %v, want %v", i+1, got, want)
		}
		got := make(map[string]string)
		for _, h := range answer.RequestHeadersToAdd {
			got[h.Key] = h.Value
		}
		if want := map[string]string{"quota": "2", "quota-left": left}; !maps.Equal(got, want) || len(answer.RequestHeadersToAdd) != 2 {
			t.Errorf("request %d: the request gets %v, want %v", i+1, answer.RequestHeadersToAdd, want)
		}
	}
}
