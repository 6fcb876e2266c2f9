// Package manifest finds the descriptor files in Kubernetes manifests: the entries of ConfigMaps that weir would read.
//
// A ConfigMap is read if one of its entries names a domain, or if it is the only one. If any container in the manifests
// serves limits, the ConfigMap must also be a volume of such a container's pod.
package manifest

import (
	"fmt"
	"path"
	"slices"
	"strings"

	goyaml "go.yaml.in/yaml/v3"

	"github.com/weirproxy/weir/descriptors/yaml"
)

// Manifests has the descriptor files in the manifests of one file.
type Manifests struct {
	Files    []yaml.File   // entries of ConfigMaps; each is a part of the file
	Problems yaml.Problems // manifests that cannot be read
	LeftOut  []string      // a sentence for each ConfigMap and entry that weir would not read
	// Program is the program of the first container that serves limits, "weir" or "ratelimit"; "" for none.
	Program string
	// Environment has the variables of that container that are plain values.
	Environment map[string]string
}

const (
	// maxObjects bounds the objects that are read, including the containers and volumes of pods. Lists may nest.
	maxObjects = 10_000
	// maxSize bounds the size of all entries together, in bytes. A short file with aliases may have long ones.
	maxSize = 64 << 20
)

// Read returns the descriptor files in the manifests of a file. name is the file's name in messages. Read reports false
// if the file does not begin with a manifest; it may be a descriptor file itself.
func Read(name string, data []byte) (m *Manifests, isManifest bool) {
	documents, line, err := yaml.Documents(data)
	if len(documents) == 0 || yaml.ManifestKind(documents[0]) == "" {
		return nil, false
	}
	r := reader{file: name}
	if err != nil {
		r.problem(line, "", "%v", err)
	}
	for _, document := range documents {
		r.readObject(document)
	}
	for _, c := range r.configMaps {
		switch {
		case r.Program != "" && !slices.Contains(r.mounted, c.Metadata.Name):
			r.leaveOut("ConfigMap %s (line %d): no pod that serves limits mounts it", c.Metadata.Name, c.line)
		case len(r.configMaps) > 1 && !c.namesDomain():
			r.leaveOut("ConfigMap %s (line %d): nothing in it names a domain", c.Metadata.Name, c.line)
		default:
			r.readEntries(c)
		}
	}
	if r.objects > maxObjects || r.size > maxSize {
		r.Manifests = Manifests{}
		r.problem(0, "", "too much to read: with its YAML aliases followed it has over %d objects or %d MiB",
			maxObjects, maxSize>>20)
	}
	if len(r.Files)+len(r.Problems) == 0 {
		r.problem(0, "", "no ConfigMap here holds descriptor files; one that begins with domain: and its name makes a ConfigMap one of them")
	}
	return &r.Manifests, true
}

// reader makes a Manifests. It collects all objects first, as a pod may come after the ConfigMaps that it mounts.
type reader struct {
	Manifests
	file       string // its name in messages
	configMaps []*object
	mounted    []string // names of ConfigMaps that pods with such containers mount
	objects    int
	size       int // size of all entries, in bytes
}

func (r *reader) problem(line int, part, format string, args ...any) {
	r.Problems = append(r.Problems, yaml.Problem{File: r.file, Line: line, Part: part, Text: fmt.Sprintf(format, args...)})
}

func (r *reader) leaveOut(format string, args ...any) {
	r.LeftOut = append(r.LeftOut, fmt.Sprintf(format, args...))
}

// object has the fields of a ConfigMap, a pod, an object with a pod template, or a list.
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

type pod struct {
	Containers     []container
	InitContainers []container `yaml:"initContainers"`
	Volumes        []struct {
		Source    volumeSource `yaml:",inline"`
		Projected struct{ Sources []volumeSource }
	}
}

type volumeSource struct {
	ConfigMap struct{ Name string } `yaml:"configMap"`
}

type container struct {
	Command, Args []string
	Env           []struct {
		Name  string
		Value *string
	}
}

// readObject collects the ConfigMap or the pod of an object, or those of each object in a list.
func (r *reader) readObject(n *goyaml.Node) {
	if r.objects++; r.objects > maxObjects {
		return
	}
	kind := yaml.ManifestKind(n)
	o := object{line: n.Line}
	_ = n.Decode(&o) // an error means that a field has another type; the other fields are decoded
	switch {
	case kind == "":
		r.problem(n.Line, "", "this document is no Kubernetes manifest, which has apiVersion and kind: check it by itself")
	case strings.HasSuffix(kind, "List") && o.Items.Kind == goyaml.SequenceNode:
		for _, item := range o.Items.Content {
			r.readObject(yaml.ResolveAlias(item))
		}
	case kind == "ConfigMap":
		r.configMaps = append(r.configMaps, &o)
	}
	r.readPod(&o.Spec.Pod)
	r.readPod(&o.Spec.Template.Spec)
}

// readPod collects the ConfigMaps that a pod mounts, if one of its containers serves limits.
func (r *reader) readPod(p *pod) {
	r.objects += len(p.Containers) + len(p.InitContainers) + len(p.Volumes)
	serves := false
	for _, c := range slices.Concat(p.Containers, p.InitContainers) {
		program, environment := c.program()
		serves = serves || program != ""
		if r.Program == "" {
			r.Program, r.Environment = program, environment
		}
	}
	if !serves {
		return
	}
	for _, v := range p.Volumes {
		for _, s := range append(v.Projected.Sources, v.Source) {
			r.mounted = append(r.mounted, s.ConfigMap.Name)
		}
	}
}

// program returns the program of a container that serves limits, "weir" or "ratelimit", and the container's environment
// variables that are plain values. For other containers it returns "" and nil.
func (c *container) program() (name string, environment map[string]string) {
	environment = make(map[string]string)
	for _, variable := range c.Env {
		if variable.Value != nil {
			environment[variable.Name] = *variable.Value
		}
	}
	words := slices.Concat(c.Command, c.Args)
	_, hasRoot := environment["RUNTIME_ROOT"]
	hasConfig := slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, "--config") })
	switch {
	case slices.Contains(words, "serve") && (hasConfig || hasRoot):
		return "weir", environment
	case hasRoot || len(words) > 0 && path.Base(words[0]) == "ratelimit":
		return "ratelimit", environment
	}
	return "", nil
}

// namesDomain reports whether an entry of a ConfigMap names a domain.
func (o *object) namesDomain() bool {
	for _, value := range yaml.Pairs(&o.Data) {
		if yaml.NamesDomain([]byte(value.Value)) {
			return true
		}
	}
	return false
}

// readEntries makes a file of each entry of a ConfigMap.
func (r *reader) readEntries(configMap *object) {
	for key := range yaml.Pairs(&configMap.BinaryData) {
		r.problem(key.Line, configMap.Metadata.Name+"/"+key.Value,
			"an entry of binaryData is not checked: put the file into data, as text")
	}
	for key, value := range yaml.Pairs(&configMap.Data) {
		part := configMap.Metadata.Name + "/" + key.Value
		switch {
		case strings.HasPrefix(key.Value, "."):
			r.leaveOut("%s (line %d): weir does not read it", part, key.Line)
		case value.Kind != goyaml.ScalarNode || value.Tag != "!!str":
			r.problem(key.Line, part, "an entry of a ConfigMap is text: put | behind %s: and the file below it", key.Value)
		default:
			if r.size += len(value.Value); r.size > maxSize {
				return
			}
			// Files are read in the order of their names, so the name begins with the entry's, as in a mounted ConfigMap.
			name := fmt.Sprintf("%s\x00%s:%d", key.Value, configMap.Metadata.Name, key.Line)
			r.Files = append(r.Files, yaml.File{Name: name, Data: []byte(value.Value),
				Part: &yaml.Part{File: r.file, Name: part, Line: lineOf(key, value)}})
		}
	}
}

// lineOf returns a function that converts a line of an entry to a line of the manifest. The lines of a literal block
// (|) follow its key; for any other text only the key's line is known.
func lineOf(key, value *goyaml.Node) func(int) int {
	if value.Style&goyaml.LiteralStyle == 0 {
		return func(int) int { return key.Line }
	}
	return func(line int) int { return value.Line + line }
}
