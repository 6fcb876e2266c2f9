package backend_test

import (
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

func TestPartKeepsDecisionsInOrderOfChecks(t *testing.T) {
	checks := make([]backend.Check, 7)
	for i := range checks {
		checks[i] = backend.Check{Key: []byte{byte(i)}, Limits: make([]descriptors.Limit, 1), Hits: uint64(i)}
	}
	var parts [2]backend.Subset
	for range 2 { // the second time in the room of the first
		out := make([]backend.Decision, len(checks))
		for i := range checks {
			parts[i%2].Add(checks, i)
		}
		for n := range parts {
			p := &parts[n]
			for i := range p.Checks {
				p.Out[i] = backend.Decision{Remaining: p.Checks[i].Hits, Err: backend.ErrClosed}
			}
			p.CopyTo(out)
			p.Reset()
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
		for i, c := range checks {
			if out[i].Remaining != c.Hits {
				t.Errorf("decision %d is the one on a check of %d hits; its check asks for %d", i, out[i].Remaining, c.Hits)
			}
		}
	}
}
