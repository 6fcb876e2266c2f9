package main

import (
	"slices"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
	"google.golang.org/protobuf/proto"
)

func TestEveryScenarioHasItsRule(t *testing.T) {
	config, problems := yaml.Parse([]yaml.File{{Name: "descriptors.yaml", Data: descriptorFile}},
		yaml.Options{})
	if len(problems) > 0 {
		t.Fatalf("descriptors.yaml is not right: %v", problems)
	}
	for _, s := range scenarios() {
		if s.Name == floorName {
			continue
		}
		entry := s.request(0).GetDescriptors()[0].GetEntries()[0]
		match := config.Match(domain, descriptors.Descriptor{{Key: entry.GetKey(), Value: entry.GetValue()}})
		if match.Found != descriptors.RuleFound || len(match.Rule.Limits) != 1 {
			t.Errorf("%s: descriptors.yaml has no rule of one limit for it: its requests would pass uncounted", s.Name)
			continue
		}
		if got := match.Rule.Limits[0].Requests; got != uint64(s.Limit) {
			t.Errorf("%s: the rule's limit is %d, want %d, which the answers are checked for", s.Name, got, s.Limit)
		}
	}
}

func TestRequestsCoverEveryKeyOnce(t *testing.T) {
	s := scenario{Name: "sliding-hour"}
	encoded, err := s.requests(50)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, b := range encoded {
		var r ratelimit.RateLimitRequest
		if err := proto.Unmarshal(b, &r); err != nil {
			t.Fatal(err)
		}
		values = append(values, r.GetDescriptors()[0].GetEntries()[0].GetValue())
	}
	if slices.IsSorted(values) {
		t.Error("the keys come in order: that would favour a server which keeps them in that order")
	}
	slices.Sort(values)
	if distinct := len(slices.Compact(values)); distinct != 50 {
		t.Errorf("%d keys in 50 requests, want 50", distinct)
	}
	s.OneKey = true
	if encoded, err := s.requests(50); err != nil || len(encoded) != 1 {
		t.Errorf("%d requests for a hot key, error %v; want the same one always", len(encoded), err)
	}
}

func TestTheFloorIsAlwaysChosen(t *testing.T) {
	names := func(chosen []scenario) string {
		var names []string
		for _, s := range chosen {
			names = append(names, s.Name)
		}
		return strings.Join(names, " ")
	}
	for _, c := range []struct {
		name string
		only []string
		want string
	}{
		{"no names: all", nil, names(scenarios())},
		{"the floor alone", []string{"floor"}, "floor"},
		{"their order is the bench's", []string{"denied", "fixed-minute"}, "floor fixed-minute denied"},
	} {
		chosen, err := choose(scenarios(), c.only)
		if err != nil || names(chosen) != c.want {
			t.Errorf("%s: %s, error %v; want %s", c.name, names(chosen), err, c.want)
		}
	}
	_, err := choose(scenarios(), []string{"denied", "dinied"})
	if err == nil || !strings.Contains(err.Error(), "dinied") {
		t.Errorf("a misspelt scenario: %v, want an error that names it", err)
	}
}

func TestWrongAnswersAreRefused(t *testing.T) {
	const ok, over = ratelimit.RateLimitResponse_OK, ratelimit.RateLimitResponse_OVER_LIMIT
	type answer = ratelimit.RateLimitResponse
	status := func(limit uint32) []*ratelimit.RateLimitResponse_DescriptorStatus {
		return []*ratelimit.RateLimitResponse_DescriptorStatus{{
			CurrentLimit: &ratelimit.RateLimitResponse_RateLimit{RequestsPerUnit: limit},
		}}
	}
	s := scenario{Name: "denied", Limit: 10, Want: over}
	for _, c := range []struct {
		name   string
		answer *answer
		want   string // in the error; "": none
	}{
		{"right", &answer{OverallCode: over, Statuses: status(10)}, ""},
		{"admitted", &answer{OverallCode: ok, Statuses: status(10)}, "the verdict is OK, not OVER_LIMIT"},
		{"no status", &answer{OverallCode: over}, "0 statuses"},
		{"another rule", &answer{OverallCode: over, Statuses: status(11)}, "the current limit is 11, not 10"},
	} {
		err := s.check(c.answer)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
	}
}
