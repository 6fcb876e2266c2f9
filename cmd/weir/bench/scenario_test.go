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
		for _, d := range s.request(0).GetDescriptors() {
			entry := d.GetEntries()[0]
			match := config.Match(domain, descriptors.Descriptor{{Key: entry.GetKey(), Value: entry.GetValue()}})
			if match.Found != descriptors.RuleFound {
				t.Errorf("%s: descriptors.yaml has no rule for %s: its requests would pass uncounted", s.Name, entry.GetKey())
				continue
			}
			limits := match.Rule.Limits
			if got, want := len(limits), limitsOf(s); got != want {
				t.Errorf("%s: the rule for %s has %d limits, want %d, as the title says", s.Name, entry.GetKey(), got, want)
				continue
			}
			if got := limits[len(limits)-1].Requests; got != uint64(s.Limit) {
				t.Errorf("%s: the rule's last limit is %d, want %d, which the answers are checked for", s.Name, got, s.Limit)
			}
			for _, l := range limits[:len(limits)-1] {
				if l.Requests <= uint64(s.Limit) {
					t.Errorf("%s: a limit before the last is %d: the last would not be shown to count", s.Name, l.Requests)
				}
			}
		}
	}
}

// limitsOf is how many limits each rule of the scenario has.
func limitsOf(s scenario) int {
	if s.Rule == "two-limits" {
		return 2
	}
	return 1
}

func TestDescriptorsOfARequestAreOnRulesOfTheirOwn(t *testing.T) {
	var keys []string
	for _, d := range (scenario{Rule: "three", Descriptors: 3}).request(7).GetDescriptors() {
		keys = append(keys, d.GetEntries()[0].GetKey()+"="+d.GetEntries()[0].GetValue())
	}
	if got, want := strings.Join(keys, " "), "three=user-00007 three-2=user-00007 three-3=user-00007"; got != want {
		t.Errorf("the descriptors are %s, want %s: each is a check of its own", got, want)
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
