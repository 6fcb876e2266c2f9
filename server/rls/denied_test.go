package rls

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
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
`

// service serves the refusing rules on a clock that stands still.
func service(t testing.TB, limits limit.Options, o Options) *Service {
	t.Helper()
	limits.Algorithm = descriptors.SlidingWindow
	l := deciding(t, fixture.Config(t, refusing), limits, func() time.Time { return time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC) })
	return New(l, o, nobody{})
}

// ask sends a request of some hits, with descriptors given as weir call reads them, through the codec's bytes.
func (s *Service) ask(t testing.TB, n uint32, texts ...string) *ratelimit.RateLimitResponse {
	t.Helper()
	r := &ratelimit.RateLimitRequest{Domain: "shop", HitsAddend: n}
	for _, text := range texts {
		entries, err := descriptors.ParseDescriptor(text)
		if err != nil {
			t.Fatal(err)
		}
		d := new(common.RateLimitDescriptor)
		for _, e := range entries {
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value})
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return s.send(t, r)
}

func (s *Service) send(t testing.TB, r *ratelimit.RateLimitRequest) *ratelimit.RateLimitResponse {
	t.Helper()
	data, err := proto.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	in := s.calls.Get().(*inbound)
	defer s.release(in)
	if err := in.read(data); err != nil {
		t.Fatal(err)
	}
	out, err := s.answer(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	answer := new(ratelimit.RateLimitResponse)
	if err := proto.Unmarshal(out.encoded, answer); err != nil {
		t.Fatalf("the answer is no RateLimitResponse: %v", err)
	}
	return answer
}

// said returns dynamic metadata in JSON, with sorted keys; "" for none.
func said(t testing.TB, m *structpb.Struct) string {
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

func TestDynamicMetadataSaysWhichRuleRefused(t *testing.T) {
	const long = `{"domain":"shop","limit":"3/hour","path":"long","retry_after":3660,"rule":"long"}`
	const shadow = `{"domain":"shop","limit":"1/day","path":"shadow","retry_after":86460,"rule":"shadow"}`
	for _, tc := range []struct {
		promise string
		limits  limit.Options
		ask     []string
		want    string
	}{
		{"nothing where the request passes", limit.Options{}, []string{"free=x"}, ""},
		{"rule, limit and name, and no wait for what never passes", limit.Options{}, []string{"user=ann,path=/pay"},
			`{"denied":{"domain":"shop","limit":"0/minute","name":"payments","path":"user/path=%2Fpay","rule":"user/path=/pay"}}`},
		{"of several the one that makes wait longest", limit.Options{}, []string{"brief=x", "long=x", "brief=y"}, `{"denied":` + long + `}`},
		{"shadow mode apart", limit.Options{}, []string{"shadow=x"}, `{"shadow_denied":` + shadow + `}`},
		{"shadow mode beside a refusal", limit.Options{}, []string{"shadow=x", "long=x"}, `{"denied":` + long + `,"shadow_denied":` + shadow + `}`},
		{"all in shadow mode", limit.Options{Shadow: true}, []string{"long=x"}, `{"shadow_denied":` + long + `}`},
		{"one quota of two refuses nothing", limit.Options{}, []string{"q1=x", "long=y", "q2=y"}, ""},
		{"of quotas the one that makes wait shortest, as one is enough", limit.Options{}, []string{"q2=x", "q1=x"},
			`{"denied":{"domain":"shop","limit":"1/minute","path":"q1","retry_after":61,"rule":"q1"}}`},
	} {
		t.Run(tc.promise, func(t *testing.T) {
			s := service(t, tc.limits, Options{DeniedMetadata: true})
			for _, key := range []string{"brief=x", "brief=x", "brief=y", "brief=y", "long=x", "long=x", "long=x", "shadow=x", "q1=x", "q2=x"} {
				s.ask(t, 1, key)
			}
			if got := said(t, s.ask(t, 1, tc.ask...).DynamicMetadata); got != tc.want {
				t.Errorf("dynamic metadata are\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestMetadataOfDenialsAreOffUnlessAskedFor(t *testing.T) {
	answer := service(t, limit.Options{}, Options{}).ask(t, 1, "user=ann,path=/pay")
	if answer.DynamicMetadata != nil || answer.OverallCode != ratelimit.RateLimitResponse_OVER_LIMIT {
		t.Errorf("the answer is %v; want a refusal without dynamic metadata, as envoyproxy/ratelimit sends it", answer)
	}
}

func TestDynamicMetadataSayThatADomainIsUnknown(t *testing.T) {
	for _, tc := range []struct {
		promise, domain string
		on              bool
		want            string
	}{
		{"one that nothing configures", "shopp", true, `{"unknown_domain":true}`},
		{"none of a known one that no rule matches", "shop", true, ""},
		{"none unless asked for, as envoyproxy/ratelimit", "shopp", false, ""},
	} {
		answer := service(t, limit.Options{}, Options{DeniedMetadata: tc.on}).send(t, &ratelimit.RateLimitRequest{Domain: tc.domain,
			Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: "free", Value: "x"}}}}})
		if got := said(t, answer.DynamicMetadata); got != tc.want || answer.OverallCode != ratelimit.RateLimitResponse_OK {
			t.Errorf("%s: the answer is %v with dynamic metadata %s, want OK with %s", tc.promise, answer.OverallCode, got, tc.want)
		}
	}
}

func TestMetadataOfDenialsStandBesideTheRequests(t *testing.T) {
	answer := service(t, limit.Options{}, Options{DeniedMetadata: true, DynamicMetadata: true}).ask(t, 2, "user=ann,path=/pay")
	if got := said(t, answer.DynamicMetadata); !strings.Contains(got, `"rule":"user/path=/pay"},"descriptors":[{"entries":["user=ann"`) {
		t.Errorf("dynamic metadata are\n%s\nwant what refused and what was asked", got)
	}
}

func TestRetryAfterInMetadataIsThatOfTheHeader(t *testing.T) {
	s := service(t, limit.Options{}, Options{DeniedMetadata: true, Headers: Headers{RetryAfter: true}})
	s.ask(t, 3, "long=x")
	answer := s.ask(t, 1, "long=x", "brief=x")
	header := answer.ResponseHeadersToAdd[0].Value
	if got := answer.DynamicMetadata.Fields["denied"].GetStructValue().Fields["retry_after"].GetNumberValue(); header != "3660" || got != 3660 {
		t.Errorf("the header says %s and dynamic metadata %v; want 3660 in both", header, got)
	}
}

// The oracle is structpb: what is written by hand must read back as what was meant, whatever the texts are.
func FuzzHandwrittenMetadataReadBack(f *testing.F) {
	f.Add("shop", "user/path=%2Fpay", "name", uint32(5), int64(time.Second))
	f.Add("é", strings.Repeat("%2525%", 100), strings.Repeat("n", 200), uint32(0), int64(-1))
	f.Fuzz(func(t *testing.T, domain, path, name string, requests uint32, wait int64) {
		for _, text := range []*string{&domain, &path, &name} {
			*text = strings.ToValidUTF8(*text, "?")
		}
		s := &limit.Status{Over: true, Limit: &descriptors.Limit{Requests: uint64(requests), Unit: descriptors.Week, Multiplier: 1, Name: name}}
		data := appendDenial(nil, path, domain, s, max(0, time.Duration(wait)))
		var got structpb.Struct
		if err := proto.Unmarshal(data, &got); err != nil {
			t.Fatalf("it is no Struct: %v", err)
		}
		denied := got.Fields[path].GetStructValue().AsMap()
		if denied["domain"] != domain || denied["limit"] != s.Limit.String() || name != "" && denied["name"] != name {
			t.Errorf("%q reads back as %v", path, denied)
		}
	})
}

func TestDebugLogsOneLineARequest(t *testing.T) {
	var log bytes.Buffer
	level := new(slog.LevelVar)
	s := service(t, limit.Options{}, Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))})
	s.ask(t, 1, "long=x")
	if log.Len() > 0 {
		t.Errorf("at level info it logs %s", &log)
	}
	level.Set(slog.LevelDebug)
	s.ask(t, 1, "long=x\n\x1b[2J", "user=ann,path=/pay")
	line := log.String()
	for _, want := range []string{"level=DEBUG", "domain=shop", "answer=over_limit", "took=", `long=x\n\x1b[2J -> rule long (0.yaml:8)`,
		"rule user/path=/pay (0.yaml:6)", "OVER 0/minute"} {
		if !strings.Contains(line, want) {
			t.Errorf("the line lacks %q:\n%s", want, line)
		}
	}
	if strings.Count(line, "\n") != 1 {
		t.Errorf("a request has %d lines; want one, whatever its values hold:\n%s", strings.Count(line, "\n"), line)
	}
}
