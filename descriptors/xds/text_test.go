package xds

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirproxy/weir/descriptors"
	rules "github.com/weirproxy/weir/descriptors/yaml"
)

// judge reads a file as a source does.
func judge(data []byte) rules.Renewal {
	return rules.NewHeld(rules.Options{NoLines: true}).Renew([]rules.File{{Name: "resource n", Data: data}}, nil)
}

// expectSame fails unless two files give the same rules, or the same errors. One may have more warnings.
func expectSame(t *testing.T, got, want rules.Renewal, data []byte) {
	t.Helper()
	if a, b := fmt.Sprint(got.Problems.Err()), fmt.Sprint(want.Problems.Err()); a != b {
		t.Fatalf("the errors are\n%.2000s\nwant\n%.2000s\nof\n%.2000q", a, b, data)
	}
	if (got.Config == nil) != (want.Config == nil) {
		t.Fatalf("there is a configuration: %v, want %v\nof %.2000q", got.Config != nil, want.Config != nil, data)
	}
	if got.Config == nil {
		return
	}
	if a, b := all(got.Config.Rules()), all(want.Config.Rules()); !reflect.DeepEqual(a, b) {
		t.Fatalf("the rules are\n%.2000v\nwant\n%.2000v\nof\n%.2000q", a, b, data)
	}
	if a, b := got.Config.Passes(), want.Config.Passes(); !reflect.DeepEqual(a, b) {
		t.Fatalf("what passes is %v, want %v", a, b)
	}
}

func all(pointers []*descriptors.Rule) (values []descriptors.Rule) {
	for _, r := range pointers {
		values = append(values, *r)
	}
	return values
}

// spell writes a resource by a YAML library, with all of its fields.
func spell(t *testing.T, c *ratelimit.RateLimitConfig) []byte {
	t.Helper()
	m := mapping("descriptors", sequence(c.GetDescriptors(), spellDescriptor))
	if c.GetDomain() != "" {
		m.Content = append(mapping("domain", quoted(c.GetDomain())).Content, m.Content...)
	}
	data, err := yaml.Marshal(m)
	must(t, err)
	return data
}

func spellDescriptor(d *ratelimit.RateLimitDescriptor) *yaml.Node {
	m := mapping("shadow_mode", plain(fmt.Sprint(d.GetShadowMode())), "quota_mode", plain(fmt.Sprint(d.GetQuotaMode())),
		"detailed_metric", plain(fmt.Sprint(d.GetDetailedMetric())), "key", quoted(d.GetKey()), "value", quoted(d.GetValue()),
		"descriptors", sequence(d.GetDescriptors(), spellDescriptor))
	if p := d.GetRateLimit(); p != nil {
		limit := mapping("unlimited", plain(fmt.Sprint(p.GetUnlimited())), "name", quoted(p.GetName()), "replaces",
			sequence(p.GetReplaces(), func(r *ratelimit.RateLimitReplace) *yaml.Node { return mapping("name", quoted(r.GetName())) }))
		if p.GetUnit() != 0 {
			limit.Content = append(limit.Content, mapping("unit", quoted(strings.ToLower(p.GetUnit().String()))).Content...)
		}
		if !p.GetUnlimited() {
			limit.Content = append(limit.Content, mapping("requests_per_unit", plain(fmt.Sprint(p.GetRequestsPerUnit()))).Content...)
		}
		m.Content = append(m.Content, mapping("rate_limit", limit).Content...)
	}
	if d.GetMetadata() != nil && d.GetRateLimit() != nil { // without a limit it is not even read
		m.Content = append(m.Content, mapping("metadata", spellValue(structpb.NewStructValue(d.GetMetadata()))).Content...)
	}
	return m
}

func spellValue(v *structpb.Value) *yaml.Node {
	switch v := v.GetKind().(type) {
	case *structpb.Value_StructValue:
		m := mapping()
		for key, value := range v.StructValue.GetFields() {
			m.Content = append(m.Content, quoted(key), spellValue(value))
		}
		return m
	case *structpb.Value_ListValue:
		return sequence(v.ListValue.GetValues(), spellValue)
	case *structpb.Value_StringValue:
		return quoted(v.StringValue)
	case *structpb.Value_NumberValue:
		if math.IsInf(v.NumberValue, 0) {
			return plain(".inf")
		}
		return plain(strings.ReplaceAll(fmt.Sprint(v.NumberValue), "NaN", ".nan"))
	case *structpb.Value_BoolValue:
		return plain(fmt.Sprint(v.BoolValue))
	}
	return plain("null")
}

func plain(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }
func quoted(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
}

// mapping is made of names and nodes in turn.
func mapping(fields ...any) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode}
	for pair := range slices.Chunk(fields, 2) {
		m.Content = append(m.Content, plain(pair[0].(string)), pair[1].(*yaml.Node))
	}
	return m
}

func sequence[T any](items []T, spell func(T) *yaml.Node) *yaml.Node {
	s := &yaml.Node{Kind: yaml.SequenceNode}
	for _, item := range items {
		s.Content = append(s.Content, spell(item))
	}
	return s
}

// random makes resources of everything that is hard to write, or wrong.
type random struct{ *rand.Rand }

var words = []string{"", "a", "b", "user", "*", "a*", "é", "\x00", "\x7f", "\u0085", "\u2028", "\ufeff", "\ufffe", "😀", "\t", "\n", "\r\n", " ",
	"  x", "x  ", "\"", "'", "\\", "\\n", "{", "}", "[", "]", ",", ":", ": ", " #", "#", "- ", "? ", "<<", "~", "null", "yes", "1.5", "010", "2020-01-01",
	"%", "@", "`", "|", ">", "!x", "&x", "*x", "---", "...", "domain: x", strings.Repeat("k", 1100)}

func (r random) word() string {
	w := words[r.IntN(len(words))]
	for r.IntN(3) == 0 {
		w += words[r.IntN(len(words)-1)]
	}
	return w
}

func (r random) often(most string) string {
	if r.IntN(8) > 0 {
		return most + fmt.Sprint(r.IntN(6))
	}
	return r.word()
}

func (r random) flag() bool { return r.IntN(4) == 0 }

func (r random) config() *ratelimit.RateLimitConfig {
	return &ratelimit.RateLimitConfig{Name: r.word(), Domain: r.often("d"), Descriptors: r.descriptors(0)}
}

func (r random) descriptors(depth int) (all []*ratelimit.RateLimitDescriptor) {
	for range r.IntN(4) {
		d := &ratelimit.RateLimitDescriptor{Key: r.often("k"), Value: r.word(), ShadowMode: r.flag(), DetailedMetric: r.flag(), QuotaMode: r.flag()}
		if r.IntN(2) == 0 {
			d.RateLimit = &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit(1 + r.IntN(7)), RequestsPerUnit: r.Uint32() >> r.IntN(33)}
			if r.flag() {
				d.RateLimit.Name = r.word()
			}
			if r.IntN(6) == 0 {
				d.RateLimit.Unit, d.RateLimit.Unlimited = 0, true
			}
			if r.IntN(20) == 0 {
				d.RateLimit.Unit = ratelimit.RateLimitUnit(r.IntN(11) - 1)
			}
			if r.IntN(6) == 0 {
				d.RateLimit.Replaces = append(d.RateLimit.Replaces, &ratelimit.RateLimitReplace{Name: r.word()})
			}
		}
		if r.flag() {
			d.Metadata = r.metadata(0)
		}
		if depth < 4 && r.IntN(2) == 0 {
			d.Descriptors = r.descriptors(depth + 1)
		}
		all = append(all, d)
	}
	return all
}

func (r random) metadata(depth int) *structpb.Struct {
	m := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for range r.IntN(3) {
		m.Fields[r.word()] = r.value(depth)
	}
	return m
}

func (r random) value(depth int) *structpb.Value {
	switch n := r.IntN(8); {
	case n == 0 && depth < 3:
		return structpb.NewStructValue(r.metadata(depth + 1))
	case n == 1 && depth < 3:
		return structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{r.value(depth + 1), nil, r.value(depth + 1)}})
	case n == 2:
		return structpb.NewBoolValue(r.flag())
	case n == 3:
		return structpb.NewNullValue()
	case n == 4:
		return structpb.NewNumberValue(float64(r.Int64()) / float64(r.IntN(100))) // infinite now and then
	case n == 5:
		return structpb.NewNumberValue(float64(r.IntN(1000)))
	}
	return structpb.NewStringValue(r.word())
}

func TestAnyResourceIsTheFileThatSaysTheSame(t *testing.T) {
	right, seeds := 0, uint64(3000)
	if testing.Short() {
		seeds = 500
	}
	for seed := range seeds {
		c := random{rand.New(rand.NewPCG(seed, 0))}.config()
		got := judge(text(c))
		expectSame(t, got, judge(spell(t, c)), text(c))
		if got.Config != nil && len(got.Config.Rules()) > 0 {
			right++
		}
	}
	if uint64(right) < seeds/6 {
		t.Errorf("only %d resources had rules: the others prove little", right)
	}
}

// FuzzResponse holds that no response does harm, whatever bytes it is of: there is an answer that can be sent, and what
// can be read means what it says.
func FuzzResponse(f *testing.F) {
	for seed := range uint64(20) {
		r := random{rand.New(rand.NewPCG(seed, 1))}
		var response discovery.DiscoveryResponse
		for range r.IntN(3) {
			packed, err := anypb.New(r.config())
			if err != nil {
				f.Fatal(err)
			}
			response.Resources = append(response.Resources, packed)
		}
		data, err := proto.Marshal(&response)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, seed%2 == 0)
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
			wrong := s.take(&response, func(*descriptors.Config) error { return nil })
			if len(wrong) > maxRefusal || !utf8.ValidString(wrong) {
				t.Fatalf("the server would be told %d bytes, %q", len(wrong), wrong)
			}
		}
		for _, packed := range response.GetResources() {
			if r := unpack(packed); r.err == nil {
				expectSame(t, judge(text(r.config)), judge(spell(t, r.config)), text(r.config))
			}
		}
	})
}

func TestARefusalIsBounded(t *testing.T) {
	long := fmt.Errorf("%s", strings.Repeat("é", maxRefusal))
	for _, test := range []struct {
		errs []error
		want string
	}{
		{[]error{long}, "éé…"},
		{[]error{fmt.Errorf("first"), long, long}, "first\nand 2 more"},
		{slices.Repeat([]error{fmt.Errorf("%s", strings.Repeat("x", 99))}, 1000), "x\nand 960 more"},
		{[]error{fmt.Errorf("a\xffb"), fmt.Errorf("c")}, "a?b\nc"},
	} {
		if got := listed(test.errs); len(got) > maxRefusal || !utf8.ValidString(got) || !strings.HasSuffix(got, test.want) {
			t.Errorf("%d errors are told as %d bytes, …%q, want …%q", len(test.errs), len(got), got[max(0, len(got)-50):], test.want)
		}
	}
}
