package rls

import (
	"encoding/json"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

func TestADegradedAnswerSaysWhoDecidedAndWhy(t *testing.T) {
	c := &limit.Call{Verdict: limit.Verdict{Degraded: true, Statuses: []limit.Status{
		{}, {Policy: descriptors.PolicyDeny, Reason: backend.Down}, {Policy: descriptors.PolicyLocal, Reason: backend.Late}}}}
	c.Domain = "shop"
	want := `{"degraded":[` +
		`{"descriptor":1,"path":"__unmatched__","policy":"deny","reason":"down"},` +
		`{"descriptor":2,"path":"__unmatched__","policy":"local","reason":"late"}]}`
	got, err := json.Marshal(metadata(c, &Options{}).AsMap())
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
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
