package backend_test

import (
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// callOf makes a call of n checks; check i asks for i hits of key i.
func callOf(n int) []backend.Check {
	checks := make([]backend.Check, n)
	for i := range checks {
		checks[i] = backend.Check{Key: []byte{byte(i)}, Limits: make([]descriptors.Limit, 1), Hits: uint64(i)}
	}
	return checks
}

// decide answers each check with the hits that it asks for.
func decide(p *backend.Part) {
	for i := range p.Checks {
		p.Out[i].Remaining = p.Checks[i].Hits
	}
}

func TestPartsPutEachDecisionWhereItsCheckStandsInTheCall(t *testing.T) {
	checks := callOf(7)
	var even, odd backend.Part
	for range 2 { // the second time in the room of the first
		out := make([]backend.Decision, len(checks)+1) // Decide allows more decisions than checks
		out[len(checks)].Remaining = 99
		for i := range checks {
			if i%2 == 0 {
				even.Add(checks, i)
			} else {
				odd.Add(checks, i)
			}
		}
		for _, p := range []*backend.Part{&odd, &even} {
			decide(p)
			p.Checks[0].Op = backend.Look
			p.HandOver(out)
			p.Reset()
		}
		for i, c := range checks {
			if c.Op != backend.Count {
				t.Error("changing a part's check changed the check of the call")
			}
			if out[i].Remaining != c.Hits {
				t.Errorf("decision %d is the one on a check of %d hits; its check asks for %d", i, out[i].Remaining, c.Hits)
			}
		}
		if out[len(checks)].Remaining != 99 {
			t.Error("a decision that belongs to no check was overwritten")
		}
	}
}

func TestAnEmptiedPartHoldsNothingOfTheCall(t *testing.T) {
	checks := callOf(3)
	var p backend.Part
	for i := range checks {
		p.Add(checks, i)
		p.Out[i].Err = backend.ErrClosed
	}
	p.Reset()
	out := make([]backend.Decision, len(checks))
	if p.HandOver(out); len(p.Checks) > 0 || len(p.Out) > 0 || out[0].Err != nil {
		t.Errorf("after Reset the part still has %d checks and hands over %v", len(p.Checks), out)
	}
	for i, c := range p.Checks[:cap(p.Checks)] {
		if c.Key != nil || c.Limits != nil {
			t.Errorf("the room of check %d still refers to the call, and keeps its memory alive: %+v", i, c)
		}
	}
	for i, d := range p.Out[:cap(p.Out)] {
		if d.Err != nil {
			t.Errorf("the room of decision %d still refers to an error: %v", i, d.Err)
		}
	}
}
