package yaml

import (
	"errors"

	"go.yaml.in/yaml/v3"

	"github.com/weirproxy/weir/descriptors"
)

// Documents returns the roots of the YAML documents of a file, without those that are empty. Where the file is not valid,
// it returns those before, and the line (0 if it is not known) and the reason.
func Documents(data []byte) (roots []*yaml.Node, line int, err error) {
	if countNodes(data) > maxNodes {
		return nil, 0, errTooManyNodes
	}
	if roots, err = documents(data); err != nil {
		var text string
		line, text = syntaxError(err)
		err = errors.New("not valid YAML: " + text)
	}
	return roots, line, err
}

// ManifestKind returns the kind of a Kubernetes manifest; "" for anything else, such as a descriptor file.
func ManifestKind(root *yaml.Node) string {
	if root.Kind != yaml.MappingNode {
		return ""
	}
	texts := make(map[string]string)
	for i := 0; i+1 < len(root.Content); i += 2 {
		if value := Follow(root.Content[i+1]); value.Kind == yaml.ScalarNode {
			texts[root.Content[i].Value] = value.Value
		}
	}
	if _, isDescriptors := texts["domain"]; isDescriptors || texts["apiVersion"] == "" {
		return ""
	}
	return texts["kind"]
}

// describeManifest returns what a message says of a manifest in the place of a descriptor file.
func describeManifest(kind string) string {
	return "this is a Kubernetes manifest, not a descriptor file: keep its " + descriptors.Shown(kind) + " out of the directory " +
		"that weir reads. weir check FILE checks the files that a ConfigMap holds"
}

// NamesDomain reports whether data seem to be a descriptor file, right or wrong: they name a domain at the top.
func NamesDomain(data []byte) bool { return domainLine(data) != "" }
