package main

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// TestMain lets the test binary be the floor server, as the bench's own binary is.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == floorArgument {
		exitOn(serveFloor(os.Args[2]))
		return
	}
	os.Exit(m.Run())
}

// The floor stands for weir, too: it is what it is compared with, so it must cost as much as itself.
func TestTheFloorCostsOneFloor(t *testing.T) {
	o, err := parseOptions(strings.Fields("--only floor --rounds 1 --measure 50ms --half-load 50ms --warm-up 10ms --in-flight 2"),
		io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := run(t.Context(), o, &table, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(table.String(), "1.00  1.00..1.00") {
		t.Errorf("the report does not say that the floor costs 1.00 floors:\n%s", table.String())
	}
}

func TestAServerWithOtherRulesYieldsNoFigure(t *testing.T) {
	floor, err := startFloor(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(floor.close)
	for _, s := range scenarios() {
		wrong := s.Want == ratelimit.RateLimitResponse_OVER_LIMIT || s.Descriptors > 1 || s.Look
		if _, err := s.probe(t.Context(), floor.conns[0], 100); (err != nil) != wrong {
			t.Errorf("%s: of a server that answers always the same: %v; want an error: %t", s.Name, err, wrong)
		}
	}
}

func TestPacedRequestsAreDueOnAGridThatNeverWaits(t *testing.T) {
	start := time.Unix(1000, 0)
	s := newSchedule(start, phase{warmUp: time.Second, measure: time.Second, rate: 3})
	for n := range 6 {
		want := start.Add(time.Duration(float64(n) / 3 * float64(time.Second)))
		if due := s.next(start.Add(time.Hour)); !due.Equal(want) { // whoever asks late must not move the grid
			t.Errorf("request %d is due at %v, want %v: rounded intervals would add up to another rate", n, due, want)
		}
	}
}

func TestASampleDividesByWhatWasAnsweredBetweenTheReadings(t *testing.T) {
	const good, bad = ratelimit.RateLimitResponse_OK, ratelimit.RateLimitResponse_OVER_LIMIT
	start := time.Unix(1000, 0)
	before := reading{at: start, cpu: time.Second, store: time.Second, answered: 500}
	after := reading{at: start.Add(2 * time.Second), cpu: 1030 * time.Millisecond, store: 1010 * time.Millisecond, answered: 2500}
	workers := []*worker{
		{want: good, latencies: []time.Duration{3 * time.Millisecond, time.Millisecond}},
		{want: good, latencies: []time.Duration{2 * time.Millisecond}},
	}
	got, err := newSample(before, after, workers)
	want := sample{RequestsPerSecond: 1000, CPUMicros: 15, RedisMicros: 5, P50Millis: 2, P99Millis: 3}
	if err != nil || got != want {
		t.Errorf("the sample is %+v, error %v; want %+v", got, err, want)
	}
	workers[0].wrong, workers[0].wrongVerdict = 1, bad
	if got, err := newSample(before, after, workers); err == nil {
		t.Errorf("a third of the answers had a wrong verdict, and yielded %+v: a figure of wrong answers means nothing", got)
	}
}

func TestEveryScenarioHasItsRule(t *testing.T) {
	config, problems := yaml.Parse([]yaml.File{{Name: "descriptors.yaml", Data: descriptorFile}}, yaml.Options{})
	if len(problems) > 0 {
		t.Fatalf("descriptors.yaml is not right: %v", problems)
	}
	for _, s := range scenarios()[1:] {
		for _, d := range s.request(0).GetDescriptors() {
			entry := d.GetEntries()[0]
			match := config.Match(domain, descriptors.Descriptor{{Key: entry.GetKey(), Value: entry.GetValue()}})
			if match.Found != descriptors.RuleFound || match.Rule.Limits[len(match.Rule.Limits)-1].Requests != uint64(s.Limit) {
				t.Errorf("%s: descriptors.yaml has no rule for %s whose last limit is %d, which answers are checked for", s.Name,
					entry.GetKey(), s.Limit)
			}
		}
	}
}
