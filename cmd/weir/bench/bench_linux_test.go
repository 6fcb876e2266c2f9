package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be the floor server, as the bench's own binary is.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == floorArgument {
		if err := serveFloor(os.Args[2], os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// short are options for a run of a fraction of a second.
func short(only string) options {
	return options{
		Rounds: 2, Measure: 100 * time.Millisecond, HalfLoad: 100 * time.Millisecond, WarmUp: 20 * time.Millisecond,
		Share: 0.5, Connections: 2, InFlight: 4, Keys: 100, Only: []string{only},
	}
}

func TestBenchMeasuresTheFloor(t *testing.T) {
	var table, progress strings.Builder
	if err := run(t.Context(), short(floorName), &table, &progress); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"floor: grpc-go, constant answer", "1.00..1.00", "Medians of 2 interleaved rounds"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, table.String())
		}
	}
	if !strings.Contains(progress.String(), "round 2 of 2") {
		t.Errorf("progress is %q, want a line for each round", progress.String())
	}
}

// runningFloor returns a floor server that ends with the test.
func runningFloor(t *testing.T) *server {
	t.Helper()
	s, err := startFloor(t.Context(), 1, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func TestBenchMeasuresAServerThatRunsAlready(t *testing.T) {
	running := runningFloor(t) // it answers as the rule of fixed-minute would
	o := short("fixed-minute")
	o.Rounds, o.HalfLoad, o.Addr, o.PID = 1, 0, running.addr, running.pid
	var table strings.Builder
	if err := run(t.Context(), o, &table, &strings.Builder{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(table.String(), "0.65: m") {
		t.Errorf("the report does not say whether the budget was met or missed:\n%s", table.String())
	}
}

func TestBenchRefusesAServerWithOtherRules(t *testing.T) {
	o := short("denied")
	o.Addr = runningFloor(t).addr
	err := run(t.Context(), o, &strings.Builder{}, &strings.Builder{})
	want := "scenario denied, round 1: the verdict is OK, not OVER_LIMIT"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q in it: a server that admits all must not yield a figure", err, want)
	}
}

func TestLoadFailsWhenTheServerEnds(t *testing.T) {
	s := runningFloor(t)
	s.child.end()
	floor := scenarios()[0]
	requests, err := floor.requests(10)
	if err != nil {
		t.Fatal(err)
	}
	l := &load{server: s, inFlight: 1, requests: requests, want: floor.Want}
	if got, err := l.run(t.Context(), phase{measure: 50 * time.Millisecond}); err == nil {
		t.Errorf("a server that is gone yielded %+v, want an error", got)
	}
}

func TestAWeirThatDoesNotServeIsQuoted(t *testing.T) {
	// A shell script stands for a weir that refuses its configuration.
	binary := t.TempDir() + "/weir"
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho \"$0 $1: no such rule\" >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := startWeir(context.Background(), binary, nil, 1, t.TempDir())
	for _, want := range []string{"exit status 3", "serve: no such rule"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it: it is all that tells why weir does not serve", err, want)
		}
	}
}

func TestCPUTimeAdvancesWithWork(t *testing.T) {
	before, err := cpuTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after := before
	for began := time.Now(); err == nil && after <= before && time.Since(began) < time.Minute; {
		after, err = cpuTime(os.Getpid())
	}
	if err != nil || after <= before {
		t.Errorf("CPU time went from %s to %s, error %v; want it to advance with work", before, after, err)
	}
	if bytes, err := residentBytes(os.Getpid()); err != nil || bytes < 1<<20 {
		t.Errorf("%d bytes of this process are in memory, error %v; want more than a megabyte", bytes, err)
	}
}
