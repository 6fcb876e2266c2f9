package xds

import (
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

var discard = slog.New(slog.DiscardHandler)

// pack returns messages as a response has them.
func pack(t *testing.T, messages ...proto.Message) (packed []*anypb.Any) {
	t.Helper()
	for _, m := range messages {
		if m == nil {
			packed = append(packed, nil)
			continue
		}
		p, err := anypb.New(m)
		must(t, err)
		packed = append(packed, p)
	}
	return packed
}

// spoilt is a resource whose name and domain can be read, but no more.
func spoilt(t *testing.T, domain string) *anypb.Any {
	t.Helper()
	p := pack(t, limited(domain, 1))[0]
	p.Value = p.Value[:len(p.Value)-1]
	return p
}

func TestUnreadableResourceBlocksNoOther(t *testing.T) {
	c := &client{t: t}
	s := New(Config{Log: slog.New(slog.NewTextHandler(c, nil))})
	for _, step := range []struct {
		resources []*anypb.Any
		inForce   string
		told      string
	}{
		{pack(t, nil, limited("a", 1)), "a=1", "a resource without a name cannot be read"},
		{pack(t, limited("a", 1), limited("b", 1), limited("c", 1)), "a=1 b=1 c=1", ""},
		{append(pack(t, limited("b", 2)), spoilt(t, "a")), "a=1 b=2", "resource a: cannot be read: proto:"},
		{pack(t, limited("b", 3), limited("d", 3), &discovery.DiscoveryRequest{}), "a=1 b=3 d=3", // it may be a: nobody knows
			"a resource without a name cannot be read"},
		{pack(t, limited("b", 4), nil), "a=1 b=4 d=3", "a resource without a name cannot be read"},
		{pack(t, limited("b", 5)), "b=5", ""},
	} {
		told := s.update(&discovery.DiscoveryResponse{VersionInfo: "v", Resources: step.resources}, c.Apply)
		if c.limits() != step.inForce || !strings.HasPrefix(told, step.told) || (told == "") != (step.told == "") {
			t.Fatalf("in force is %s, and the server is told %q; want %s and %q", c.limits(), told, step.inForce, step.told)
		}
	}
	if got := c.Logged("unless another file has it: what has no name"); got != 1 {
		t.Errorf("the log says %d times that nobody knows whose a resource is, want once: as long as nothing was in force", got)
	}
}

func TestEachResourceIsAFileOrUnreadable(t *testing.T) {
	unwritable := limited("a", 1)
	unwritable.Descriptors[0].Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"n": structpb.NewNumberValue(math.NaN())}}
	deep := &ratelimit.RateLimitDescriptor{Key: "k"}
	for range 3 * maxDepth {
		deep = &ratelimit.RateLimitDescriptor{Key: "k", Descriptors: []*ratelimit.RateLimitDescriptor{deep}}
	}
	large, full, b := limited("a", 1), limited("a", 1), limited("b", 1)
	b.Name = "a"
	large.Descriptors[0].Value, full.Descriptors[0].Value = strings.Repeat("\x01", maxResource), strings.Repeat("\x01", maxWritten/6/2)
	for name, tc := range map[string]struct {
		resources  []*anypb.Any
		file, told string
	}{
		"two of one name":         {pack(t, limited("a", 1), b), "resource a resource a (2)", ""},
		"what no file can say":    {pack(t, unwritable), "", "resource a: cannot be read"},
		"nested too deep":         {pack(t, &ratelimit.RateLimitConfig{Name: "a", Descriptors: []*ratelimit.RateLimitDescriptor{deep}}), "", "resource a: cannot be read: proto:"},
		"too large":               {pack(t, large), "", "resource a: cannot be read: it is 16 MiB large: at most 16 are allowed, split it"},
		"too much together":       {pack(t, full, full), "resource a", "resource a (2): cannot be read: the response becomes more than 64 MiB with it: send less"},
		"too many, nobody's name": {slices.Repeat(pack(t, limited("a", 1)), maxResources+1), "", "the response has 10001 resources: at most 10000 are allowed"},
	} {
		files, problems := filesOf(tc.resources)
		var names []string
		for _, f := range files {
			names = append(names, f.Name)
		}
		if strings.Join(names, " ") != tc.file || (len(problems) > 0) != (tc.told != "") ||
			tc.told != "" && !strings.HasPrefix(problems.Err().Error(), tc.told) {
			t.Errorf("%s: got the files %v, and %v; want %+v", name, names, problems, tc)
		}
	}
}
