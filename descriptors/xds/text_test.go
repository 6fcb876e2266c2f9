package xds

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirproxy/weir/descriptors"
	rules "github.com/weirproxy/weir/descriptors/yaml"
)

func TestResourceReadsLikeTheSameFile(t *testing.T) {
	metadata, err := structpb.NewStruct(map[string]any{"tier": "true", "n": 1.5, "all": []any{nil, true, map[string]any{"<<": ""}}})
	must(t, err)
	c := &ratelimit.RateLimitConfig{Name: "n", Domain: "eg/shop", Descriptors: []*ratelimit.RateLimitDescriptor{{
		Key: "user", Value: "1.5", ShadowMode: true, Descriptors: []*ratelimit.RateLimitDescriptor{
			{Key: "path", RateLimit: &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_WEEK, RequestsPerUnit: 7, Name: "w",
				Replaces: []*ratelimit.RateLimitReplace{{Name: "free"}}}, ShadowMode: true, QuotaMode: true, DetailedMetric: true, Metadata: metadata},
			{Key: "block", RateLimit: &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_SECOND}},
			{Key: "free", RateLimit: &ratelimit.RateLimitPolicy{Unlimited: true, Name: "free"}},
			{Key: "pass", Value: "yes"},
		},
	}}}
	file := `
domain: eg/shop
descriptors:
- key: user
  value: "1.5"
  descriptors:
  - key: path
    rate_limit: {unit: week, requests_per_unit: 7, name: w, replaces: [{name: free}]}
    shadow_mode: true
    quota_mode: true
    detailed_metric: true
    metadata: {tier: "true", n: 1.5, all: [null, true, {"<<": ""}]}
  - {key: block, rate_limit: {unit: second, requests_per_unit: 0}}
  - {key: free, rate_limit: {unlimited: true, name: free}}
  - {key: pass, value: "yes"}
`
	written := written(t, c)
	got, want := judge(written), judge([]byte(file))
	if want.Config == nil || len(want.Config.Rules()) != 3 {
		t.Fatalf("the file itself is wrong: %v", want.Problems)
	}
	if len(got.Problems) != 0 {
		t.Fatalf("the resource has problems: %v; shadow_mode stands on each level of what Envoy Gateway sends", got.Problems)
	}
	gotRules, gotPasses := got.Config.DomainContent("eg/shop")
	if rules, passes := want.Config.DomainContent("eg/shop"); !reflect.DeepEqual(gotRules, rules) || !reflect.DeepEqual(gotPasses, passes) {
		t.Errorf("the resource is %s,\nwhich says other than\n%s", written, file)
	}
}

func written(t *testing.T, c *ratelimit.RateLimitConfig) []byte {
	t.Helper()
	data, err := fileText(c)
	must(t, err)
	return data
}

// judge reads a file as a source does.
func judge(data []byte) rules.Update {
	return rules.NewLastGood(rules.Options{NoLines: true, Lenient: true}).Update([]rules.File{{Name: "resource n", Data: data}}, nil)
}

// words are hard to write in YAML, or mean something there.
var words = []string{"a", "*", "a*", "é", "\x00", "\x7f", "\u0085", "\u2028", "\ufeff", "\ufffe", "😀", "\t", "\n", "\r\n", " ",
	"  x", "x  ", "\"", "'", "\\", "\\n", "{", "}", "[", "]", ",", ":", ": ", " #", "#", "- ", "? ", "<<", "~", "null", "yes", "1.5", "010", "2020-01-01",
	"%", "@", "`", "|", ">", "!x", "&x", "*x", "---", "...", "domain: x", strings.Repeat("k", 1000)}

// Each text stands in each place: what comes out of the file that is written is what went in.
func TestWrittenTextReadsBack(t *testing.T) {
	for _, word := range words {
		metadata, err := structpb.NewStruct(map[string]any{word: []any{word, nil, true, 1e300, map[string]any{word: -0.5}}})
		must(t, err)
		c := &ratelimit.RateLimitConfig{Domain: "d" + word, Descriptors: []*ratelimit.RateLimitDescriptor{{Key: word, Value: word,
			RateLimit: &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_DAY, RequestsPerUnit: 5}, Metadata: metadata}}}
		data := written(t, c)
		r := judge(data)
		if r.Config == nil || len(r.Config.Rules()) != 1 {
			t.Errorf("%q: got %v of\n%s", word, r.Problems, data)
			continue
		}
		rule, m := r.Config.Rules()[0], r.Config.Match("d"+word, descriptors.Descriptor{{Key: word, Value: word}})
		if m.Rule != rule || !reflect.DeepEqual(rule.Metadata, metadata.AsMap()) {
			t.Errorf("%q: read back is %+v, found is %+v, of\n%s", word, rule, m, data)
		}
	}
}

// Whatever a server sends, the source answers it, within bounds.
func FuzzResponse(f *testing.F) {
	for _, word := range words {
		packed, err := anypb.New(limited(word, 1))
		if err != nil {
			f.Fatal(err)
		}
		data, err := proto.Marshal(&discovery.DiscoveryResponse{VersionInfo: word, Resources: []*anypb.Any{packed, packed}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, len(word)%2 == 0)
	}
	f.Fuzz(func(t *testing.T, data []byte, merge bool) {
		var response discovery.DiscoveryResponse
		if proto.Unmarshal(data, &response) != nil {
			return // gRPC ends the stream
		}
		config := Config{Log: discard}
		config.Rules.Merge = merge
		s := New(config)
		for range 2 {
			wrong := s.update(&response, func(*descriptors.Config) error { return nil })
			if len(wrong) > maxRefusal || !utf8.ValidString(wrong) {
				t.Fatalf("the server would be told %d bytes, %q", len(wrong), wrong)
			}
		}
	})
}

func TestRefusalTextIsBounded(t *testing.T) {
	long := fmt.Errorf("%s", strings.Repeat("é", maxRefusal))
	for _, test := range []struct {
		errs []error
		want string
	}{
		{[]error{long}, "éé…"},
		{[]error{fmt.Errorf("first"), long, long}, "é…"},
		{slices.Repeat([]error{fmt.Errorf("%s", strings.Repeat("x", 99))}, 1000), "xx…"},
		{[]error{fmt.Errorf("a\xffb"), fmt.Errorf("c")}, "a?b\nc"},
	} {
		if got := refusalOf(test.errs); len(got) > maxRefusal || !utf8.ValidString(got) || !strings.HasSuffix(got, test.want) {
			t.Errorf("%d errors are told as %d bytes, …%q, want …%q", len(test.errs), len(got), got[max(0, len(got)-50):], test.want)
		}
	}
}
