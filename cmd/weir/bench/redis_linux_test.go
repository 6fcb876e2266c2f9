package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestAnIncrByHasACost(t *testing.T) {
	s, err := startStore(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	micros, err := s.yardstick(t.Context(), 100, 50*time.Millisecond)
	if err != nil || micros <= 0 {
		t.Errorf("an INCRBY costs %v µs, error %v; want a cost to compare requests with", micros, err)
	}
	s.child.end()
	if got, err := s.yardstick(t.Context(), 100, 50*time.Millisecond); err == nil {
		t.Errorf("a Redis that is gone yielded %v µs, want an error", got)
	}
}

func TestAMissingRedisIsToldWithItsRemedy(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := run(t.Context(), short("redis-sliding-day"), &strings.Builder{}, &strings.Builder{})
	if !errors.Is(err, errNoRedis) || !strings.Contains(err.Error(), "make tools") {
		t.Errorf("error %v, want %q: it is what the reader has to do", err, errNoRedis)
	}
	o := short(floorName)
	o.Rounds, o.HalfLoad = 1, 0
	if err := run(t.Context(), o, &strings.Builder{}, &strings.Builder{}); err != nil {
		t.Errorf("without any scenario on Redis: %v, want no need of it", err)
	}
}
