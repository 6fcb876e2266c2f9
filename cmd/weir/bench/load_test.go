package main

import (
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

func TestPacedRequestsAreDueOnAGridThatNeverWaits(t *testing.T) {
	start := time.Unix(1000, 0)
	s := newSchedule(start, phase{warmUp: time.Second, measure: time.Second, rate: 3})
	var due []time.Duration
	for {
		late := start.Add(time.Hour) // whoever asks late must not move the grid
		at, more := s.next(late)
		if !more {
			break
		}
		due = append(due, at.Sub(start))
	}
	if len(due) != 6 {
		t.Fatalf("%d requests in two seconds at 3 a second, want 6: %v", len(due), due)
	}
	for i, got := range due {
		want := time.Duration(float64(i) / 3 * float64(time.Second))
		if got != want {
			t.Errorf("request %d is due at %s, want %s: rounded intervals would add up to another rate", i, got, want)
		}
	}
	if !s.from.Equal(start.Add(time.Second)) || !s.until.Equal(start.Add(2*time.Second)) {
		t.Errorf("measured from %s to %s after the start, want 1s to 2s", s.from.Sub(start), s.until.Sub(start))
	}
}

func TestUnpacedRequestsAreDueAtOnceUntilTheEnd(t *testing.T) {
	start := time.Unix(1000, 0)
	s := newSchedule(start, phase{warmUp: time.Second, measure: time.Second})
	now := start.Add(1500 * time.Millisecond)
	if due, more := s.next(now); !more || !due.Equal(now) {
		t.Errorf("due %s, more %t; want it due now: %s", due, more, now)
	}
	if _, more := s.next(start.Add(2 * time.Second)); more {
		t.Error("a request is due at the end of the phase, want none: it would be answered after the measurement")
	}
}

func TestSampleDividesByWhatWasAnsweredBetweenTheReadings(t *testing.T) {
	start := time.Unix(1000, 0)
	before := reading{at: start, cpu: time.Second, answered: 500}
	after := reading{at: start.Add(2 * time.Second), cpu: time.Second + 30*time.Millisecond, answered: 2500}
	workers := []*worker{
		{want: ratelimit.RateLimitResponse_OK, latencies: []time.Duration{3 * time.Millisecond, time.Millisecond}},
		{want: ratelimit.RateLimitResponse_OK, latencies: []time.Duration{2 * time.Millisecond}},
	}
	got, err := newSample(before, after, workers)
	if err != nil {
		t.Fatal(err)
	}
	want := sample{Answered: 2000, Seconds: 2, RequestsPerSecond: 1000, CPUMicros: 15, P50Millis: 2, P99Millis: 3}
	if got != want {
		t.Errorf("the sample is %+v, want %+v", got, want)
	}
}

func TestSampleRefusesWrongVerdicts(t *testing.T) {
	const ok, over = ratelimit.RateLimitResponse_OK, ratelimit.RateLimitResponse_OVER_LIMIT
	for _, c := range []struct {
		name            string
		answered, wrong int
		want            string // in the error; "": none
	}{
		{"none wrong", 2000, 0, ""},
		{"a window that began anew", 20_000, 10, ""},
		{"a rule that is not there", 2000, 2000, "2000 of 2000 answers had a wrong verdict: OK instead of OVER_LIMIT"},
		{"one in a hundred", 2000, 20, "20 of 2000"},
		{"no answer", 0, 0, "no request was answered"},
	} {
		w := &worker{want: over, wrong: c.wrong, wrongVerdict: ok, latencies: make([]time.Duration, c.answered)}
		after := reading{at: time.Unix(1, 0), answered: uint64(c.answered)}
		_, err := newSample(reading{at: time.Unix(0, 0)}, after, []*worker{w})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v, want a sample", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want %q in it: a figure of wrong answers means nothing", c.name, err, c.want)
		}
	}
}
