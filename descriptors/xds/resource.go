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
	// maxDepth is how deep the messages of a resource may nest. What is right nests less: a level of metadata is three.
	maxDepth = 1000
	// maxResources is how many a response may have. An empty one takes two bytes of it.
	maxResources = 10_000
	// maxResource is how large a resource may be, and maxWritten how large all of a response may be as files, in bytes: as
	// files of a directory.
	maxResource, maxWritten = 16 << 20, 64 << 20
)

// filesOf returns the file that means the same as each resource, named "resource" and its name. It returns a problem for
// each one that cannot be read, of no file if the name is unknown.
func filesOf(resources []*anypb.Any) (files []yaml.File, problems yaml.Problems) {
	if len(resources) > maxResources {
		const tooMany = "the response has %d resources: at most %d are allowed"
		return nil, yaml.Problems{{Text: fmt.Sprintf(tooMany, len(resources), maxResources)}}
	}
	seen, size := make(map[string]int), 0 // seen is how often, by name
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
		called := cmp.Or(config.GetName(), config.GetDomain()) // servers name most of them for their domains
		name := strings.TrimSpace("resource " + called)
		if seen[name]++; seen[name] > 1 { // names should be unique, and those of files have to be
			name += fmt.Sprintf(" (%d)", seen[name])
		}
		switch {
		case err == nil:
			files = append(files, yaml.File{Name: name, Data: written})
		case called == "":
			problems = append(problems, yaml.Problem{Text: fmt.Sprintf("a resource without a name cannot be read: %v", err)})
		default:
			problems = append(problems, yaml.Problem{File: name, Text: fmt.Sprintf("cannot be read: %v", err)})
		}
	}
	return files, problems
}

// fileText writes a resource as the file that says the same, in JSON, which is YAML too.
func fileText(c *ratelimit.RateLimitConfig) ([]byte, error) {
	if size := proto.Size(c); size > maxResource { // before it is written: a control character takes six bytes there
		return nil, fmt.Errorf("it is %d MiB large: at most %d are allowed, split it", size>>20, maxResource>>20)
	}
	c = proto.CloneOf(c)
	c.Name = "" // which no file has
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

// notASCII is what JSON may have in a text, and YAML only escaped.
var notASCII = regexp.MustCompile(`[^ -~]+`)

// clearIneffective clears what means something only beside a limit where there is none: servers set shadow_mode on each level,
// for which a file has a warning.
func clearIneffective(all []*ratelimit.RateLimitDescriptor) {
	for _, d := range all {
		if d.GetRateLimit() == nil {
			d.ShadowMode, d.QuotaMode, d.DetailedMetric, d.Metadata = false, false, false, nil
		}
		clearIneffective(d.GetDescriptors())
	}
}
