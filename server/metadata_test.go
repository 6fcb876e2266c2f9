package server

import (
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirproxy/weir/server/rls"
)

const told = `
- key: user
  metadata: {tier: gold, who: {a: 1}, list: [1]}
  rate_limit: {requests_per_unit: 100, unit: hour}
- key: path
  metadata: {tier: silver, who: {a: 2, b: {c: 3}}, list: [2], tried: true}
  rate_limit: {requests_per_unit: 100, unit: hour}
- {key: closed, metadata: {never: said}, rate_limit: {requests_per_unit: 0, unit: hour}}
- {key: trial, shadow_mode: true, metadata: {trial: over}, rate_limit: {requests_per_unit: 0, unit: hour}}
- {key: plain, rate_limit: {requests_per_unit: 100, unit: hour}}
`

func TestDynamicMetadata(t *testing.T) {
	override := shopping("user")
	override.HitsAddend = 3
	override.Descriptors[0].HitsAddend = wrapperspb.UInt64(0)
	override.Descriptors[0].Limit = &common.RateLimitDescriptor_RateLimitOverride{
		RequestsPerUnit: 10, Unit: typev3.RateLimitUnit_MINUTE, UnitMultiplier: wrapperspb.UInt32(5)}
	c := serving(t, rls.Options{DynamicMetadata: true}, told)
	for _, tc := range []struct {
		name    string
		request *ratelimit.RateLimitRequest
		want    string
	}{
		{"nothing to tell", shopping("plain", "nobody"),
			`{"domain":"shop","descriptors":[{"entries":["plain=v"]},{"entries":["nobody=v"]}]}`},
		{"the first says it, structs merge, lists do not", shopping("user", "path"), `{"domain":"shop",
			"descriptors":[{"entries":["user=v"]},{"entries":["path=v"]}],
			"metadata":{"tier":"gold","who":{"a":1,"b":{"c":3}},"list":[1],"tried":true}}`},
		{"no rule has learnt from another", shopping("user"), `{"domain":"shop","descriptors":[{"entries":["user=v"]}],
			"metadata":{"tier":"gold","who":{"a":1},"list":[1]}}`},
		{"only of what passes", shopping("closed", "trial"), `{"domain":"shop",
			"descriptors":[{"entries":["closed=v"]},{"entries":["trial=v"]}],"metadata":{"trial":"over"}}`},
		{"an override is told, and its rule has nothing to say", override, `{"domain":"shop","hitsAddend":3,"descriptors":[
			{"entries":["user=v"],"hitsAddend":0,"limit":"requests_per_unit:10 unit:MINUTE unit_multiplier:{value:5}"}]}`},
	} {
		var want structpb.Struct
		if err := protojson.Unmarshal([]byte(tc.want), &want); err != nil {
			t.Fatal(err)
		}
		if got := asked(t, c, tc.request).DynamicMetadata; !proto.Equal(got, &want) {
			t.Errorf("%s: %v\nwant %v", tc.name, got, &want)
		}
	}
	if got := asked(t, serving(t, rls.Options{}, told), shopping("user")).DynamicMetadata; got != nil {
		t.Errorf("%v is sent without being asked for", got)
	}
}
