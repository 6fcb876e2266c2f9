package rls

import (
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

// Package server tests the metadata of rules.
func TestDynamicMetadataDescribesTheRequest(t *testing.T) {
	c := &limit.Call{Request: limit.Request{Domain: "shop", Hits: 3, Descriptors: []limit.Descriptor{
		{Entries: descriptors.Descriptor{{Key: "user", Value: "v"}}, HasHits: true, HasOverride: true,
			Override: limit.Override{Requests: 10, Unit: descriptors.Minute, Multiplier: 5, HasMultiplier: true}},
		{Entries: descriptors.Descriptor{{Key: "path", Value: "/"}, {Key: "k", Value: "v"}}}}}}
	const want = `{"descriptors":[{"entries":["user=v"],"hitsAddend":0,"limit":"requests_per_unit:10 unit:MINUTE unit_multiplier:{value:5}"},` +
		`{"entries":["path=/","k=v"]}],"domain":"shop","hitsAddend":3}`
	if got := metadataJSON(t, encoded(t, Options{DynamicMetadata: true}, c).DynamicMetadata); got != want {
		t.Errorf("dynamic metadata are\n%s\nwant\n%s", got, want)
	}
}

func TestDegradedAnswerNamesPolicyAndReason(t *testing.T) {
	c := &limit.Call{Verdict: limit.Verdict{Degraded: true, Statuses: []limit.Status{
		{}, {Decision: backend.Decision{Policy: descriptors.PolicyDeny, Reason: backend.Down}},
		{Decision: backend.Decision{Policy: descriptors.PolicyLocal, Reason: backend.Late}}}}}
	c.Domain = "shop"
	want := `{"degraded":[` +
		`{"descriptor":1,"path":"__unmatched__","policy":"deny","reason":"down"},` +
		`{"descriptor":2,"path":"__unmatched__","policy":"local","reason":"late"}]}`
	if got := metadataJSON(t, encoded(t, Options{}, c).DynamicMetadata); got != want {
		t.Errorf("dynamic metadata is\n%s, want\n%s: Envoy's logs tell from it what Redis did not decide", got, want)
	}
	c.Degraded = false
	if got := metadataJSON(t, encoded(t, Options{}, c).DynamicMetadata); got != "" {
		t.Errorf("an answer that the store gave has dynamic metadata %s, want none", got)
	}
}
