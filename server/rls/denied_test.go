package rls

import (
	"bytes"
	"cmp"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/server/limit"
)

const refusing = `
domain: shop
descriptors:
  - key: user
    descriptors:
      - {key: path, value: /pay, rate_limit: {requests_per_unit: 0, unit: minute, name: payments}}
  - {key: brief, rate_limit: {requests_per_unit: 2, unit: second}}
  - {key: long, rate_limit: {requests_per_unit: 3, unit: hour}}
  - {key: shadow, shadow_mode: true, rate_limit: {requests_per_unit: 1, unit: day}}
  - {key: q1, quota_mode: true, rate_limit: {requests_per_unit: 1, unit: minute}}
  - {key: q2, quota_mode: true, rate_limit: {requests_per_unit: 1, unit: hour}}
  - {key: q3, quota_mode: true, rate_limit: {requests_per_unit: 9, unit: hour}}
`

// metadataJSON returns dynamic metadata as JSON with sorted keys, or "" for none.
func metadataJSON(t testing.TB, m *structpb.Struct) string {
	t.Helper()
	if m == nil {
		return ""
	}
	text, err := json.Marshal(m.AsMap())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDynamicMetadataTellsWhichRuleDenied(t *testing.T) {
	const long = `{"domain":"shop","limit":"3/hour","path":"long","retry_after":3660,"rule":"long"}`
	const shadow = `{"domain":"shop","limit":"1/day","path":"shadow","retry_after":86460,"rule":"shadow"}`
	const pay = `"denied":{"domain":"shop","limit":"0/minute","name":"payments","path":"user/path=%2Fpay","rule":"user/path=/pay"}`
	config := fixture.Config(t, refusing)
	for _, tc := range []struct {
		promise, domain, ask string
		off                  bool // DeniedMetadata is off
		shadow, request      bool
		want                 string
	}{
		{promise: "nothing where the request passes", ask: "free=x"},
		{promise: "rule, limit and name, and no wait for what never passes", ask: "user=ann,path=/pay", want: "{" + pay + "}"},
		{promise: "nothing unless asked for, as envoyproxy/ratelimit", ask: "user=ann,path=/pay", off: true},
		{promise: "the request beside", ask: "user=ann,path=/pay", request: true,
			want: "{" + pay + `,"descriptors":[{"entries":["user=ann","path=/pay"]}],"domain":"shop","hitsAddend":1}`},
		{promise: "of several the one that makes wait longest", ask: "brief=x + long=x + brief=y", want: `{"denied":` + long + `}`},
		{promise: "shadow mode apart", ask: "shadow=x", want: `{"shadow_denied":` + shadow + `}`},
		{promise: "shadow mode beside a refusal", ask: "shadow=x + long=x", want: `{"denied":` + long + `,"shadow_denied":` + shadow + `}`},
		{promise: "all in shadow mode", shadow: true, ask: "long=x", want: `{"shadow_denied":` + long + `}`},
		{promise: "one quota of two refuses nothing", ask: "q1=x + long=y + q2=y"},
		{promise: "of quotas the one that makes wait shortest, as one is enough", ask: "q2=x + q1=x",
			want: `{"denied":{"domain":"shop","limit":"1/minute","path":"q1","retry_after":61,"rule":"q1"}}`},
		{promise: "of a refusal beside quotas the longer, as one of these is enough", ask: "brief=x + q2=x + q1=x",
			want: `{"denied":{"domain":"shop","limit":"2/second","path":"brief","retry_after":61,"rule":"brief"}}`},
		{promise: "of a refusal beside quotas of which one is not over", ask: "brief=x + q2=x + q3=x",
			want: `{"denied":{"domain":"shop","limit":"2/second","path":"brief","retry_after":2,"rule":"brief"}}`},
		{promise: "a domain that nothing configures", domain: "shopp", ask: "free=x", want: `{"unknown_domain":true}`},
		{promise: "no unknown domain unless asked for", domain: "shopp", ask: "free=x", off: true},
	} {
		w := newWorld(t, config, limit.Options{Shadow: tc.shadow},
			Options{DeniedMetadata: !tc.off, DynamicMetadata: tc.request, Headers: Headers{RetryAfter: true}})
		for _, key := range []string{"brief=x", "brief=x", "brief=y", "brief=y", "long=x", "long=x", "long=x", "shadow=x", "q1=x", "q2=x"} {
			w.ask(t, 1, key)
		}
		answer, err := w.send(t, &ratelimit.RateLimitRequest{Domain: cmp.Or(tc.domain, "shop"), HitsAddend: 1,
			Descriptors: parseDescriptors(t, strings.Split(tc.ask, " + ")...)})
		if err != nil {
			t.Fatal(err)
		}
		if got := metadataJSON(t, answer.DynamicMetadata); got != tc.want {
			t.Errorf("%s: dynamic metadata are\n%s\nwant\n%s", tc.promise, got, tc.want)
		}
		for _, h := range answer.ResponseHeadersToAdd {
			if !strings.Contains(tc.want, `"retry_after":`+h.Value) {
				t.Errorf("%s: the header %s says %s, and dynamic metadata %s", tc.promise, h.Key, h.Value, tc.want)
			}
		}
	}
}

func TestDebugLogsOneLinePerRequest(t *testing.T) {
	var log bytes.Buffer
	level := new(slog.LevelVar)
	w := newWorld(t, fixture.Config(t, refusing), limit.Options{},
		Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))})
	w.ask(t, 1, "long=x")
	if log.Len() > 0 {
		t.Errorf("at level info it logs %s", &log)
	}
	level.Set(slog.LevelDebug)
	w.ask(t, 1, "long=x\n\x1b[2J", "user=ann,path=/pay")
	_, _ = w.send(t, new(ratelimit.RateLimitRequest))
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("two requests have %d lines; want one each, whatever their values hold:\n%s", len(lines), &log)
	}
	for i, wants := range [][]string{{"level=DEBUG", "domain=shop", "answer=over", "took=", `long=x\n\x1b[2J -> long: OK`,
		"user/path=/pay: OVER"}, {"answer=invalid", "domain must not be empty"}} {
		for _, want := range wants {
			if !strings.Contains(lines[i], want) {
				t.Errorf("the line lacks %q:\n%s", want, lines[i])
			}
		}
	}
}
