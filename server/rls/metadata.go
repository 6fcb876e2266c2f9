package rls

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

// appendMetadata writes dynamic_metadata, for Envoy's logs and later filters: the descriptors decided by failure
// policies and, as the options say, the rule that refused the request, the request, and its rules' metadata.
func (s *Service) appendMetadata(dst []byte, c *limit.Call) []byte {
	o := &s.options
	before := len(dst)
	dst, begin := openMessage(dst, 6)
	if o.DynamicMetadata || c.Degraded {
		m, err := structpb.NewStruct(metadataFields(c, o))
		if err == nil {
			dst, err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, m)
		}
		if err != nil {
			return dst[:before] // only for invalid UTF-8, which no request and no file has
		}
	}
	if o.explainsDenial(&c.Verdict) {
		dst = appendDenied(dst, c)
	}
	return closeMessage(dst, begin)
}

// metadataFields builds a new map for each answer, because all requests share the metadata of a rule.
func metadataFields(c *limit.Call, o *Options) map[string]any {
	fields := make(map[string]any)
	if c.Degraded {
		fields["degraded"] = degradedDescriptors(c.Statuses)
	}
	if o.DynamicMetadata {
		describeRequest(fields, c)
	}
	return fields
}

// degradedDescriptors lists the descriptors that a failure policy decided, with the policy and the reason.
func degradedDescriptors(statuses []limit.Status) []any {
	all := []any{}
	for i := range statuses {
		if s := &statuses[i]; s.Policy != descriptors.PolicyDefault {
			all = append(all, map[string]any{"descriptor": i, "path": s.Path(), "policy": s.Policy.String(),
				"reason": s.Reason.String()})
		}
	}
	return all
}

// describeRequest adds the request, and the metadata of the rules that let it pass.
func describeRequest(fields map[string]any, c *limit.Call) {
	all := make([]any, len(c.Descriptors))
	for i := range c.Descriptors {
		all[i] = describeDescriptor(&c.Descriptors[i])
	}
	fields["domain"], fields["descriptors"] = c.Domain, all
	if c.Hits != 0 {
		fields["hitsAddend"] = c.Hits
	}
	merged := make(map[string]any)
	for i := range c.Statuses {
		if s := &c.Statuses[i]; s.Metadata != nil && s.Outcome != limit.Over {
			fields["metadata"] = merged
			merge(merged, s.Metadata)
		}
	}
}

// merge adds the entries of src that dst lacks. It merges maps that both have; dst keeps its other entries.
func merge(dst, src map[string]any) {
	for name, v := range src {
		inner, isMap := v.(map[string]any)
		if _, taken := dst[name]; !taken && isMap {
			dst[name] = make(map[string]any, len(inner)) // a copy to merge into, because v belongs to its rule
		} else if !taken {
			dst[name] = v
		}
		if dstMap, ok := dst[name].(map[string]any); ok && isMap {
			merge(dstMap, inner)
		}
	}
}

func describeDescriptor(d *limit.Descriptor) map[string]any {
	entries := make([]any, len(d.Entries))
	for i, e := range d.Entries {
		entries[i] = e.Key + "=" + e.Value
	}
	fields := map[string]any{"entries": entries}
	if d.HasOverride {
		fields["limit"] = overrideText(&d.Override)
	}
	if d.HasHits {
		fields["hitsAddend"] = d.Hits
	}
	return fields
}

// overrideText writes an override in protobuf's text format, as envoyproxy/ratelimit does.
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
