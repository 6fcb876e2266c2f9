package rls

import (
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

func metadataOf(t *testing.T, c *limit.Call, o *Options) *structpb.Struct {
	t.Helper()
	m, err := structpb.NewStruct(metadata(c, o))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// What rules say of themselves is among the behaviours of package server.
func TestDynamicMetadataTellOfTheRequest(t *testing.T) {
	c := &limit.Call{Request: limit.Request{Domain: "shop", Hits: 3, Descriptors: []limit.Descriptor{
		{Entries: descriptors.Descriptor{{Key: "user", Value: "v"}}, HasHits: true, HasOverride: true,
			Override: limit.Override{Requests: 10, Unit: descriptors.Minute, Multiplier: 5, HasMultiplier: true}},
		{Entries: descriptors.Descriptor{{Key: "path", Value: "/"}, {Key: "k", Value: "v"}}}}}}
	const want = `{"descriptors":[{"entries":["user=v"],"hitsAddend":0,"limit":"requests_per_unit:10 unit:MINUTE unit_multiplier:{value:5}"},` +
		`{"entries":["path=/","k=v"]}],"domain":"shop","hitsAddend":3}`
	if got := said(t, metadataOf(t, c, &Options{DynamicMetadata: true})); got != want {
		t.Errorf("dynamic metadata are\n%s\nwant\n%s", got, want)
	}
}

func TestADegradedAnswerSaysWhoDecidedAndWhy(t *testing.T) {
	c := &limit.Call{Verdict: limit.Verdict{Degraded: true, Statuses: []limit.Status{
		{}, {Decision: backend.Decision{Policy: descriptors.PolicyDeny, Reason: backend.Down}},
		{Decision: backend.Decision{Policy: descriptors.PolicyLocal, Reason: backend.Late}}}}}
	c.Domain = "shop"
	want := `{"degraded":[` +
		`{"descriptor":1,"path":"__unmatched__","policy":"deny","reason":"down"},` +
		`{"descriptor":2,"path":"__unmatched__","policy":"local","reason":"late"}]}`
	if got := said(t, metadataOf(t, c, &Options{})); got != want {
		t.Errorf("dynamic metadata is\n%s, want\n%s: Envoy's logs tell from it what Redis did not decide", got, want)
	}
	var answer ratelimit.RateLimitResponse
	if err := proto.Unmarshal(new(Service).encode(c), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.DynamicMetadata == nil {
		t.Error("a degraded answer has no dynamic metadata; it has to whatever RESPONSE_DYNAMIC_METADATA says")
	}
	c.Degraded = false
	answer.Reset()
	if err := proto.Unmarshal(new(Service).encode(c), &answer); err != nil || answer.DynamicMetadata != nil {
		t.Errorf("an answer that the store gave has dynamic metadata %v (%v), want none", answer.DynamicMetadata, err)
	}
}
