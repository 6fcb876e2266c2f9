package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestOptionsRefuseWhatCannotBeMeasured(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--rounds 0", "--rounds is 0"},
		{"--keys 0", "--keys is 0"},
		{"--measure 0s", "--measure is 0s"},
		{"--warm-up -1s", "neither may be negative"},
		{"--share 0", "--share is 0"},
		{"--share 1.5", "--share is 1.5"},
		{"--share NaN", "--share is NaN"},
		{"--pid 7", "needs --addr"},
		{"weir", `"weir" is not expected`},
	} {
		_, err := parseOptions(strings.Fields(c.args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.args, err, c.want)
		}
	}
}

func TestOptionsTakeListsInBothWays(t *testing.T) {
	args := []string{"--only", "fixed-minute,denied", "--only", "floor", "--env", "A=1,2", "--env", "B="}
	o, err := parseOptions(args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"fixed-minute", "denied", "floor"}; !slices.Equal(o.Only, want) {
		t.Errorf("--only is %q, want %q", o.Only, want)
	}
	if want := []string{"A=1,2", "B="}; !slices.Equal(o.Env, want) {
		t.Errorf("--env is %q, want %q: a comma belongs to the value", o.Env, want)
	}
}
