// Package manifest finds the descriptor files in Kubernetes manifests: in the ConfigMaps that weir would read.
//
// These are the ConfigMaps in which an entry names a domain, or the only one there is. Where a container among the manifests
// runs weir, only volumes of its pod are meant.
package manifest

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	goyaml "go.yaml.in/yaml/v3"

	"github.com/weirproxy/weir/descriptors/yaml"
)

// Manifests is what the manifests of one file say to weir.
type Manifests struct {
	Files    []yaml.File          // in the order that weir reads them in
	Parts    map[string]yaml.Part // where each stands, for yaml.Options
	Problems yaml.Problems        // what keeps manifests from being read
	LeftOut  []string             // sentences: which ConfigMaps and entries weir would not read
	// Program is the name that the container which reads them is started by, "weir" or "ratelimit"; "" if there is none.
	Program string
	// Environment are the variables that this container is given as plain values.
	Environment map[string]string
}

// Read returns the descriptor files in the manifests of a file, which is called name in messages. It reports false if
// the file does not begin with a manifest; then it may be a descriptor file itself.
func Read(name string, data []byte) (*Manifests, bool) {
	documents, line, err := yaml.Documents(data)
	if len(documents) == 0 || yaml.ManifestKind(documents[0]) == "" {
		return nil, false
	}
	r := reader{name: name, out: &Manifests{Parts: make(map[string]yaml.Part)}}
	if err != nil {
		r.problem(line, "", "%v", err)
	}
	if size := (unfolded{}); !size.add(documents, 0) {
		r.problem(0, "", "too much to read: with its YAML aliases followed it takes over %d MiB", maxUnfolded>>20)
		return r.out, true
	}
	for _, document := range documents {
		r.object(document, 0)
	}
	r.read()
	slices.SortStableFunc(r.out.Files, func(a, b yaml.File) int { return cmp.Compare(a.Name, b.Name) })
	if len(r.out.Files)+len(r.out.Problems) == 0 {
		r.problem(0, "", "no ConfigMap here holds descriptor files; one that begins with domain: and its name makes a ConfigMap one of them")
	}
	return r.out, true
}

// maxLists is how deep lists of manifests may nest.
const maxLists = 10

// reader collects what matters of the manifests.
type reader struct {
	name  string
	maps  []configMap
	weirs []container
	out   *Manifests
}

// configMap is a ConfigMap.
type configMap struct {
	at   *goyaml.Node
	name string
}

func (r *reader) problem(line int, part, format string, args ...any) {
	r.out.Problems = append(r.out.Problems, yaml.Problem{File: r.name, Line: line, Part: part, Text: fmt.Sprintf(format, args...)})
}

func (r *reader) leaveOut(format string, args ...any) {
	r.out.LeftOut = append(r.out.LeftOut, fmt.Sprintf(format, args...))
}

// object takes note of one manifest, or of those in a list.
func (r *reader) object(n *goyaml.Node, lists int) {
	kind := yaml.ManifestKind(n)
	items := at(n, "items")
	switch {
	case kind == "":
		r.problem(n.Line, "", "this document is no Kubernetes manifest, which has apiVersion and kind: check it by itself")
	case strings.HasSuffix(kind, "List") && items != nil && lists < maxLists:
		for _, item := range items.Content {
			r.object(follow(item), lists+1)
		}
	case kind == "ConfigMap":
		r.maps = append(r.maps, configMap{n, text(at(n, "metadata", "name"))})
	default:
		r.weirs = append(r.weirs, weirs(n)...)
	}
}

// read adds the files of the ConfigMaps that weir would read, and tells which it would not.
func (r *reader) read() {
	mounted := make(map[string]bool)
	for i, c := range r.weirs {
		if i == 0 {
			r.out.Program, r.out.Environment = c.program, c.environment
		}
		for _, name := range c.configMaps {
			mounted[name] = true
		}
	}
	for _, c := range r.maps {
		switch {
		case len(r.weirs) > 0 && !mounted[c.name]:
			r.leaveOut("ConfigMap %s (line %d): no pod that runs weir mounts it", c.name, c.at.Line)
		case len(r.maps) > 1 && !c.namesDomain():
			r.leaveOut("ConfigMap %s (line %d): nothing in it names a domain", c.name, c.at.Line)
		default:
			r.entries(c)
		}
	}
}

// container is a container that runs weir, or envoyproxy/ratelimit.
type container struct {
	program     string // weir or ratelimit
	environment map[string]string
	configMaps  []string // volumes of its pod
}

// podSpecs are where manifests hold the description of a pod.
var podSpecs = [][]string{
	{"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"}, {"spec"},
}

// weirs returns the containers of a manifest that serve limits.
func weirs(n *goyaml.Node) (all []container) {
	for _, keys := range podSpecs {
		pod := at(n, keys...)
		var configMaps []string
		for _, v := range list(pod, "volumes") {
			for _, source := range append(list(v, "projected", "sources"), v) {
				configMaps = append(configMaps, text(at(source, "configMap", "name")))
			}
		}
		for _, c := range slices.Concat(list(pod, "containers"), list(pod, "initContainers")) {
			environment := plainValues(c)
			if program := programOf(c, environment); program != "" {
				all = append(all, container{program, environment, configMaps})
			}
		}
	}
	return all
}

// plainValues returns the environment of a container, as far as its manifest says it.
func plainValues(c *goyaml.Node) map[string]string {
	environment := make(map[string]string)
	for _, variable := range list(c, "env") {
		if value := at(variable, "value"); value != nil {
			environment[text(at(variable, "name"))] = text(value)
		}
	}
	return environment
}

// programOf returns weir or ratelimit, whichever a container runs; "" for other programs.
func programOf(c *goyaml.Node, environment map[string]string) string {
	var words []string
	for _, word := range slices.Concat(list(c, "command"), list(c, "args")) {
		words = append(words, text(word))
	}
	_, rooted := environment["RUNTIME_ROOT"]
	named := slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, "--config") })
	switch {
	case slices.Contains(words, "serve") && (named || rooted):
		return "weir"
	case rooted || len(words) > 0 && path.Base(words[0]) == "ratelimit":
		return "ratelimit"
	}
	return ""
}

func (c *configMap) namesDomain() bool {
	data := at(c.at, "data")
	for i := 1; data != nil && i < len(data.Content); i += 2 {
		if yaml.NamesDomain([]byte(follow(data.Content[i]).Value)) {
			return true
		}
	}
	return false
}

// entries adds the files of a ConfigMap.
func (r *reader) entries(c configMap) {
	for _, field := range []string{"data", "binaryData"} {
		data := at(c.at, field)
		for i := 0; data != nil && i+1 < len(data.Content); i += 2 {
			key, value := data.Content[i], follow(data.Content[i+1])
			part := c.name + "/" + key.Value
			switch {
			case strings.HasPrefix(key.Value, "."):
				r.leaveOut("%s (line %d): weir does not read it", part, key.Line)
			case field == "binaryData":
				r.problem(key.Line, part, "an entry of binaryData is not checked: put the file into data, as text")
			case value.Kind != goyaml.ScalarNode || value.Tag != "!!str":
				r.problem(key.Line, part, "an entry of a ConfigMap is text: put | behind %s: and the file below it", key.Value)
			default:
				// The name begins with the entry's, by which weir orders the files.
				name := fmt.Sprintf("%s\x00%s:%d", key.Value, c.name, key.Line)
				r.out.Files = append(r.out.Files, yaml.File{Name: name, Data: []byte(value.Value)})
				r.out.Parts[name] = yaml.Part{File: r.name, Name: part, Line: lines(key, value)}
			}
		}
	}
}

// lines returns where the lines of an entry stand: those of a block that keeps its lines follow its head. Of all others
// only the entry is known.
func lines(key, value *goyaml.Node) func(int) int {
	if value.Style&goyaml.LiteralStyle != 0 {
		return func(line int) int { return value.Line + line }
	}
	return func(int) int { return key.Line }
}

// at returns what stands behind keys, one within the other; nil if nothing does.
func at(n *goyaml.Node, keys ...string) *goyaml.Node {
	for _, key := range keys {
		n = field(n, key)
	}
	return n
}

func field(n *goyaml.Node, key string) *goyaml.Node {
	if n == nil || n.Kind != goyaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return follow(n.Content[i+1])
		}
	}
	return nil
}

// list returns the items of what stands behind keys.
func list(n *goyaml.Node, keys ...string) (items []*goyaml.Node) {
	if n = at(n, keys...); n != nil && n.Kind == goyaml.SequenceNode {
		for _, item := range n.Content {
			items = append(items, follow(item))
		}
	}
	return items
}

func text(n *goyaml.Node) string {
	if n == nil || n.Kind != goyaml.ScalarNode {
		return ""
	}
	return n.Value
}

func follow(n *goyaml.Node) *goyaml.Node {
	if n.Kind == goyaml.AliasNode {
		return n.Alias
	}
	return n
}
