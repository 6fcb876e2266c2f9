package xds

import (
	"fmt"
	"regexp"
	"strconv"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// text writes a resource as the file that says the same, in JSON, which is YAML too. Left out is what means something only
// beside a limit, where there is none: servers set shadow_mode on each level.
func text(c *ratelimit.RateLimitConfig) ([]byte, error) {
	if size := proto.Size(c); size > maxResource { // before it is written: a control character takes six bytes there
		return nil, fmt.Errorf("it is %d MiB large: at most %d are allowed, split it", size>>20, maxResource>>20)
	}
	c = proto.CloneOf(c)
	c.Name = "" // which no file has
	prepare(c.GetDescriptors())
	written, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(c)
	if err != nil {
		return nil, err
	}
	return notASCII.ReplaceAllFunc(written, func(text []byte) []byte {
		quoted := strconv.AppendQuoteToASCII(nil, string(text))
		return quoted[1 : len(quoted)-1]
	}), nil
}

// notASCII is what JSON may have in a text, and YAML only escaped.
var notASCII = regexp.MustCompile(`[^ -~]+`)

// prepare makes descriptors those of a file.
func prepare(all []*ratelimit.RateLimitDescriptor) {
	for _, d := range all {
		if d.GetRateLimit() == nil {
			d.ShadowMode, d.QuotaMode, d.DetailedMetric, d.Metadata = false, false, false, nil
		}
		prepare(d.GetDescriptors())
	}
}
