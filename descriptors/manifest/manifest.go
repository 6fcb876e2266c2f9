// Package manifest finds the descriptor files in Kubernetes manifests: in the ConfigMaps that weir would read.
//
// Where a container among the manifests runs weir, these are the ConfigMaps that it mounts as its configuration.
// Otherwise it is the only ConfigMap, or of several each in which a domain is named: weir reads all files of a directory.
package manifest

import (
	"cmp"
	"fmt"
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
	for _, c := range r.chosen() {
		r.read(c)
	}
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
	name    string
	maps    []configMap
	readers []container // those that run weir
	out     *Manifests
}

// configMap is a ConfigMap.
type configMap struct {
	at              *goyaml.Node
	namespace, name string
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
		r.maps = append(r.maps, configMap{n, text(at(n, "metadata", "namespace")), text(at(n, "metadata", "name"))})
	default:
		r.readers = append(r.readers, weirs(n)...)
	}
}

// chosen returns the ConfigMaps that weir would read, and tells which it would not.
func (r *reader) chosen() (all []choice) {
	mounted := len(r.readers) > 0
	if mounted {
		r.out.Program, r.out.Environment = r.readers[0].program, r.readers[0].environment
	}
	for _, other := range r.readers {
		if !slices.EqualFunc(other.volumes, r.readers[0].volumes, volume.same) {
			r.problem(other.line, "", "%s and %s read different configurations: check the manifests of each by themselves",
				r.readers[0].name, other.name)
			return nil
		}
	}
	mounts := r.mounts()
	for _, c := range r.maps {
		entries, taken := mounts[[2]string{c.namespace, c.name}]
		switch {
		case mounted && taken:
			all = append(all, choice{c, entries})
		case mounted:
			r.leaveOut("ConfigMap %s (line %d): %s does not read it as its configuration", c.name, c.at.Line, r.readers[0].name)
		case len(r.maps) == 1 || c.namesDomain():
			all = append(all, choice{c, nil})
		default:
			r.leaveOut("ConfigMap %s (line %d): nothing in it names a domain", c.name, c.at.Line)
		}
	}
	r.missing(all)
	return all
}

// missing tells which ConfigMaps weir would read that are not among the manifests.
func (r *reader) missing(chosen []choice) {
	if len(r.readers) == 0 {
		return
	}
	there := make(map[[2]string]bool)
	for _, c := range chosen {
		there[[2]string{c.namespace, c.name}] = true
	}
	w := r.readers[0]
	for _, v := range w.volumes {
		if !there[[2]string{w.namespace, v.configMap}] {
			r.leaveOut("ConfigMap %s, which %s reads (line %d), is not among these manifests", v.configMap, w.name, w.line)
		}
	}
}

// entries are those of a ConfigMap that weir reads; nil are all.
type entries map[string]bool

// mounts returns what weir reads, by namespace and name. Those who read it have the same volumes.
func (r *reader) mounts() map[[2]string]entries {
	all := make(map[[2]string]entries)
	namespaces := make(map[string]bool)
	for _, w := range r.readers {
		if namespaces[w.namespace] {
			continue
		}
		namespaces[w.namespace] = true
		for _, v := range w.volumes {
			at := [2]string{w.namespace, v.configMap}
			if taken, known := all[at]; len(v.keys) == 0 || known && taken == nil {
				all[at] = nil
				continue
			} else if !known {
				all[at] = make(entries)
			}
			for _, key := range v.keys {
				all[at][key] = true
			}
		}
	}
	return all
}

// choice is a ConfigMap that weir reads, and what of it.
type choice struct {
	configMap
	entries entries
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

// read adds the files of a ConfigMap.
func (r *reader) read(c choice) {
	for _, field := range []string{"data", "binaryData"} {
		data := at(c.at, field)
		for i := 0; data != nil && i+1 < len(data.Content); i += 2 {
			key, value := data.Content[i], follow(data.Content[i+1])
			part := c.name + "/" + key.Value
			switch {
			case c.entries != nil && !c.entries[key.Value], strings.HasPrefix(key.Value, "."):
				r.leaveOut("%s (line %d): weir does not read it", part, key.Line)
			case field == "binaryData":
				r.problem(key.Line, part, "an entry of binaryData is not checked: put the file into data, as text")
			case value.Kind != goyaml.ScalarNode || value.Tag != "!!str":
				r.problem(key.Line, part, "an entry of a ConfigMap is text: put | behind %s: and the file below it", key.Value)
			default:
				// The name begins with the entry's, by which weir orders the files.
				name := key.Value + "\x00" + c.namespace + "/" + c.name
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
