package xds

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weirproxy/weir/descriptors/yaml"
)

const (
	// maxDepth bounds how deep the messages of a resource may nest. Valid ones nest less: a level of metadata has three.
	maxDepth = 1000
	// maxResources bounds the resources of a response. An empty resource has only two bytes.
	maxResources = 10_000
	// maxResource bounds the size of a resource, and maxWritten that of all files made of a response, in bytes, like those
	// of the files of a directory.
	maxResource, maxWritten = 16 << 20, 64 << 20
)

// filesOf converts each resource to a file named "resource NAME". It returns a problem for each resource that cannot be
// read, without a file if the name is unknown.
func filesOf(resources []*anypb.Any) (files []yaml.File, problems yaml.Problems) {
	if len(resources) > maxResources {
		const tooMany = "the response has %d resources: at most %d are allowed"
		return nil, yaml.Problems{{Text: fmt.Sprintf(tooMany, len(resources), maxResources)}}
	}
	seen, size := make(map[string]int), 0 // seen counts names
	for _, r := range resources {
		var config ratelimit.RateLimitConfig
		var written []byte
		err := anypb.UnmarshalTo(r, &config, proto.UnmarshalOptions{RecursionLimit: maxDepth})
		if err == nil {
			written, err = fileText(&config)
		}
		if size += len(written); size > maxWritten && err == nil {
			err = fmt.Errorf("the response becomes more than %d MiB with it: send less", maxWritten>>20)
		}
		own := cmp.Or(config.GetName(), config.GetDomain()) // servers name most resources after their domains
		name := strings.TrimSpace("resource " + own)
		if seen[name]++; seen[name] > 1 { // names should be unique, and those of files have to be
			name += fmt.Sprintf(" (%d)", seen[name])
		}
		switch {
		case err == nil:
			files = append(files, yaml.File{Name: name, Data: written})
		case own == "":
			problems = append(problems, yaml.Problem{Text: fmt.Sprintf("a resource without a name cannot be read: %v", err)})
		default:
			problems = append(problems, yaml.Problem{File: name, Text: fmt.Sprintf("cannot be read: %v", err)})
		}
	}
	return files, problems
}

// fileText converts a resource to a descriptor file, in JSON, which is YAML too.
func fileText(c *ratelimit.RateLimitConfig) ([]byte, error) {
	if size := proto.Size(c); size > maxResource { // before it is written: a control character takes six bytes there
		return nil, fmt.Errorf("it is %d MiB large: at most %d are allowed, split it", size>>20, maxResource>>20)
	}
	c = proto.CloneOf(c)
	c.Name = "" // files have no such key
	clearIneffective(c.GetDescriptors())
	written, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(c)
	if err != nil {
		return nil, err
	}
	return notASCII.ReplaceAllFunc(written, func(text []byte) []byte {
		quoted := strconv.AppendQuoteToASCII(nil, string(text))
		return quoted[1 : len(quoted)-1]
	}), nil
}

// notASCII matches characters that JSON allows in a text, but YAML only escaped.
var notASCII = regexp.MustCompile(`[^ -~]+`)

// clearIneffective clears fields that have no effect without a limit, as servers set shadow_mode on each level, and a
// file would get a warning for each.
func clearIneffective(all []*ratelimit.RateLimitDescriptor) {
	for _, d := range all {
		if d.GetRateLimit() == nil {
			d.ShadowMode, d.QuotaMode, d.DetailedMetric, d.Metadata = false, false, false, nil
		}
		clearIneffective(d.GetDescriptors())
	}
}
