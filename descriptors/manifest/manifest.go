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
	Files    []yaml.File   // in the order that weir reads them in; all are parts
	Problems yaml.Problems // what keeps manifests from being read
	LeftOut  []string      // sentences: which ConfigMaps and entries weir would not read
	// Program is the name that the first container which serves limits is started by, "weir" or "ratelimit"; "" for none.
	Program string
	// Environment are the variables that this container is given as plain values.
	Environment map[string]string
}

const (
	// maxObjects is how many objects are read, with the containers and volumes of pods. Lists may nest.
	maxObjects = 10_000
	// maxSize is how many bytes all entries may have together. Aliases make a short file a long one.
	maxSize = 64 << 20
)

// Read returns the descriptor files in the manifests of a file, which is called name in messages. It reports false if
// the file does not begin with a manifest; then it may be a descriptor file itself.
func Read(name string, data []byte) (*Manifests, bool) {
	documents, line, err := yaml.Documents(data)
	if len(documents) == 0 || yaml.ManifestKind(documents[0]) == "" {
		return nil, false
	}
	r := reader{name: name}
	if err != nil {
		r.problem(line, "", "%v", err)
	}
	for _, document := range documents {
		r.object(document)
	}
	for _, c := range r.maps {
		switch name := c.Metadata.Name; {
		case r.Program != "" && !slices.Contains(r.mounted, name):
			r.leaveOut("ConfigMap %s (line %d): no pod that serves limits mounts it", name, c.line)
		case len(r.maps) > 1 && !c.namesDomain():
			r.leaveOut("ConfigMap %s (line %d): nothing in it names a domain", name, c.line)
		default:
			r.entries(c)
		}
	}
	if r.objects > maxObjects || r.size > maxSize {
		r.Manifests = Manifests{}
		r.problem(0, "", "too much to read: with its YAML aliases followed it has over %d objects or %d MiB",
			maxObjects, maxSize>>20)
	}
	slices.SortStableFunc(r.Files, func(a, b yaml.File) int { return cmp.Compare(a.Name, b.Name) })
	if len(r.Files)+len(r.Problems) == 0 {
		r.problem(0, "", "no ConfigMap here holds descriptor files; one that begins with domain: and its name makes a ConfigMap one of them")
	}
	return &r.Manifests, true
}

// reader collects what matters of the manifests.
type reader struct {
	Manifests
	name    string
	maps    []*object // the ConfigMaps
	mounted []string  // names of those that are volumes of pods which serve limits
	objects int
	size    int // of all entries, in bytes
}

func (r *reader) problem(line int, part, format string, args ...any) {
	r.Problems = append(r.Problems, yaml.Problem{File: r.name, Line: line, Part: part, Text: fmt.Sprintf(format, args...)})
}

func (r *reader) leaveOut(format string, args ...any) {
	r.LeftOut = append(r.LeftOut, fmt.Sprintf(format, args...))
}

// object is what can matter of a Kubernetes object.
type object struct {
	Metadata   struct{ Name string }
	Items      goyaml.Node
	Data       goyaml.Node
	BinaryData goyaml.Node `yaml:"binaryData"`
	Spec       struct {
		Pod      pod `yaml:",inline"`
		Template struct{ Spec pod }
	}
	line int
}

// pod describes a pod.
type pod struct {
	Containers     []container
	InitContainers []container `yaml:"initContainers"`
	Volumes        []struct {
		Source    source `yaml:",inline"`
		Projected struct{ Sources []source }
	}
}

// source is what a volume holds.
type source struct {
	ConfigMap struct{ Name string } `yaml:"configMap"`
}

type container struct {
	Command, Args []string
	Env           []struct {
		Name  string
		Value *string
	}
}

// object takes note of one manifest, or of those in a list.
func (r *reader) object(n *goyaml.Node) {
	if r.objects++; r.objects > maxObjects {
		return
	}
	kind := yaml.ManifestKind(n)
	o := object{line: n.Line}
	_ = n.Decode(&o) // fields of other types are not weir's
	switch {
	case kind == "":
		r.problem(n.Line, "", "this document is no Kubernetes manifest, which has apiVersion and kind: check it by itself")
	case strings.HasSuffix(kind, "List") && o.Items.Kind == goyaml.SequenceNode:
		for _, item := range o.Items.Content {
			r.object(yaml.Follow(item))
		}
	case kind == "ConfigMap":
		r.maps = append(r.maps, &o)
	}
	for _, p := range []pod{o.Spec.Pod, o.Spec.Template.Spec} {
		r.objects += len(p.Containers) + len(p.InitContainers) + len(p.Volumes)
		serves := false
		for _, c := range slices.Concat(p.Containers, p.InitContainers) {
			program, environment := c.serves()
			serves = serves || program != ""
			if r.Program == "" {
				r.Program, r.Environment = program, environment
			}
		}
		if !serves {
			continue
		}
		for _, v := range p.Volumes {
			for _, s := range append(v.Projected.Sources, v.Source) {
				r.mounted = append(r.mounted, s.ConfigMap.Name)
			}
		}
	}
}

// serves returns the program by which a container serves limits, weir or ratelimit, and its plain variables; "" for
// other containers.
func (c *container) serves() (program string, environment map[string]string) {
	environment = make(map[string]string)
	for _, variable := range c.Env {
		if variable.Value != nil {
			environment[variable.Name] = *variable.Value
		}
	}
	words := slices.Concat(c.Command, c.Args)
	_, rooted := environment["RUNTIME_ROOT"]
	named := slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, "--config") })
	switch {
	case slices.Contains(words, "serve") && (named || rooted):
		return "weir", environment
	case rooted || len(words) > 0 && path.Base(words[0]) == "ratelimit":
		return "ratelimit", environment
	}
	return "", nil
}

// namesDomain reports whether an entry of a ConfigMap names a domain.
func (o *object) namesDomain() bool {
	return slices.ContainsFunc(yaml.Follow(&o.Data).Content, func(n *goyaml.Node) bool {
		return yaml.NamesDomain([]byte(yaml.Follow(n).Value))
	})
}

// entries adds the files of a ConfigMap.
func (r *reader) entries(o *object) {
	in, data, binary := o.Metadata.Name+"/", yaml.Follow(&o.Data).Content, yaml.Follow(&o.BinaryData).Content
	for i := 0; i+1 < len(binary); i += 2 {
		key := binary[i]
		r.problem(key.Line, in+key.Value, "an entry of binaryData is not checked: put the file into data, as text")
	}
	for i := 0; i+1 < len(data); i += 2 {
		key, value := data[i], yaml.Follow(data[i+1])
		part := in + key.Value
		switch {
		case strings.HasPrefix(key.Value, "."):
			r.leaveOut("%s (line %d): weir does not read it", part, key.Line)
		case value.Kind != goyaml.ScalarNode || value.Tag != "!!str":
			r.problem(key.Line, part, "an entry of a ConfigMap is text: put | behind %s: and the file below it", key.Value)
		default:
			if r.size += len(value.Value); r.size > maxSize {
				return
			}
			// The name begins with the entry's, by which weir orders the files.
			name := fmt.Sprintf("%s\x00%s:%d", key.Value, o.Metadata.Name, key.Line)
			r.Files = append(r.Files, yaml.File{Name: name, Data: []byte(value.Value),
				Part: &yaml.Part{File: r.name, Name: part, Line: func(line int) int {
					if value.Style&goyaml.LiteralStyle != 0 { // a block that keeps its lines has them below its head
						return value.Line + line
					}
					return key.Line
				}}})
		}
	}
}
