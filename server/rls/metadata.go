package rls

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

// appendMetadata writes dynamic_metadata, which Envoy hands to its logs and later filters: which descriptors were decided
// while the store is away and, if the options ask for it, which rule refused the request, the request as it came, and
// what the rules that let it pass say of it.
func (s *Service) appendMetadata(dst []byte, c *limit.Call) []byte {
	o := &s.options
	before := len(dst)
	dst, begin := openMessage(dst, 6)
	if o.DynamicMetadata || c.Degraded {
		var err error
		if dst, err = (proto.MarshalOptions{Deterministic: true}).MarshalAppend(dst, metadata(c, o)); err != nil {
			return dst[:before] // a text that is not UTF-8, which no request and no file has
		}
	}
	if o.tells(&c.Verdict) {
		dst = appendDenied(dst, c)
	}
	return closeMessage(dst, begin)
}

// metadata is built anew for each answer: a rule's own is shared by all requests.
func metadata(c *limit.Call, o *Options) *structpb.Struct {
	fields := make(map[string]*structpb.Value)
	if c.Degraded {
		fields["degraded"] = degraded(c.Statuses)
	}
	if o.DynamicMetadata {
		describeRequest(fields, c)
	}
	return &structpb.Struct{Fields: fields}
}

// degraded tells of each descriptor that was decided while the store is away by which policy, and why.
func degraded(statuses []limit.Status) *structpb.Value {
	var all []*structpb.Value
	for i := range statuses {
		if s := &statuses[i]; s.Policy != descriptors.PolicyDefault {
			all = append(all, structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
				"descriptor": structpb.NewNumberValue(float64(i)),
				"path":       structpb.NewStringValue(s.Path()),
				"policy":     structpb.NewStringValue(s.Policy.String()),
				"reason":     structpb.NewStringValue(s.Reason.String()),
			}}))
		}
	}
	return structpb.NewListValue(&structpb.ListValue{Values: all})
}

// describeRequest adds the request, and the metadata of the rules that let it pass.
func describeRequest(fields map[string]*structpb.Value, c *limit.Call) {
	fields["domain"] = structpb.NewStringValue(c.Domain)
	all := make([]*structpb.Value, len(c.Descriptors))
	for i := range c.Descriptors {
		all[i] = describe(&c.Descriptors[i])
	}
	fields["descriptors"] = structpb.NewListValue(&structpb.ListValue{Values: all})
	if c.Hits != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(c.Hits))
	}
	var said *structpb.Struct
	for i := range c.Statuses {
		if s := &c.Statuses[i]; s.Metadata != nil && !s.Over {
			said = fill(said, s.Metadata)
		}
	}
	if said != nil {
		fields["metadata"] = structpb.NewStructValue(said)
	}
}

// fill adds what is not there yet, to a new struct if into is nil. Structs that both have are filled in turn; all else
// stays as the first one said it.
func fill(into *structpb.Struct, from map[string]any) *structpb.Struct {
	if into == nil {
		into = &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	}
	for name, v := range from {
		old, taken := into.Fields[name]
		inner, isStruct := v.(map[string]any)
		switch {
		case isStruct && !taken:
			into.Fields[name] = structpb.NewStructValue(fill(nil, inner))
		case isStruct && old.GetStructValue() != nil:
			fill(old.GetStructValue(), inner)
		case !taken:
			if value, err := structpb.NewValue(v); err == nil { // a rule holds only what JSON has
				into.Fields[name] = value
			}
		}
	}
	return into
}

func describe(d *limit.Descriptor) *structpb.Value {
	entries := make([]*structpb.Value, len(d.Entries))
	for i, e := range d.Entries {
		entries[i] = structpb.NewStringValue(e.Key + "=" + e.Value)
	}
	fields := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: entries})}
	if d.HasOverride {
		fields["limit"] = structpb.NewStringValue(overrideText(&d.Override))
	}
	if d.HasHits {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(d.Hits))
	}
	return structpb.NewStructValue(&structpb.Struct{Fields: fields})
}

// overrideText writes an override as protobuf's text format does, in which envoyproxy/ratelimit has it.
func overrideText(o *limit.Override) string {
	var parts []string
	if o.Requests != 0 {
		parts = append(parts, fmt.Sprintf("requests_per_unit:%d", o.Requests))
	}
	if o.Unit != 0 {
		parts = append(parts, "unit:"+strings.ToUpper(o.Unit.String()))
	}
	if o.HasMultiplier {
		parts = append(parts, fmt.Sprintf("unit_multiplier:{value:%d}", o.Multiplier))
	}
	return strings.Join(parts, " ")
}
