package manifest

import (
	"cmp"
	"path"
	"slices"
	"strings"

	goyaml "go.yaml.in/yaml/v3"
)

// container is a container that runs weir, or envoyproxy/ratelimit.
type container struct {
	name        string // for people: Deployment weir
	program     string // weir or ratelimit
	line        int
	namespace   string
	volumes     []volume // those that it reads its configuration from
	environment map[string]string
}

// volume is a ConfigMap that a container mounts, with the entries that it takes of it; none are all.
type volume struct {
	configMap string
	keys      []string
}

func (v volume) same(w volume) bool {
	return v.configMap == w.configMap && slices.Equal(v.keys, w.keys)
}

// podSpecs are where manifests hold the description of a pod.
var podSpecs = [][]string{
	{"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"}, {"spec"},
}

// weirs returns the containers of a manifest that serve limits and mount ConfigMaps as their configuration.
func weirs(n *goyaml.Node) (all []container) {
	for _, keys := range podSpecs {
		pod := at(n, keys...)
		for _, c := range slices.Concat(list(pod, "containers"), list(pod, "initContainers")) {
			environment := plainValues(c)
			program, dir := configDir(c, environment)
			if dir == "" {
				continue
			}
			if volumes := mounted(pod, c, dir); len(volumes) > 0 {
				all = append(all, container{name: text(at(n, "kind")) + " " + text(at(n, "metadata", "name")),
					program: program, line: n.Line,
					namespace: text(at(n, "metadata", "namespace")), volumes: volumes, environment: environment})
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

// configDir returns the program that a container runs, and the directory that it reads descriptor files from; "" if that
// is not weir.
func configDir(c *goyaml.Node, environment map[string]string) (program, dir string) {
	var words []string
	for _, word := range slices.Concat(list(c, "command"), list(c, "args")) {
		words = append(words, text(word))
	}
	serves := slices.Contains(words, "serve")
	for i, word := range words {
		if dir, is := strings.CutPrefix(word, "--config="); is && serves {
			return "weir", path.Clean(dir)
		}
		if word == "--config" && serves && i+1 < len(words) {
			return "weir", path.Clean(words[i+1])
		}
	}
	_, rooted := environment["RUNTIME_ROOT"]
	switch {
	case serves:
		program = "weir"
	case rooted || len(words) > 0 && path.Base(words[0]) == "ratelimit":
		program = "ratelimit"
	default:
		return "", ""
	}
	// Beside the directory of RUNTIME_APPDIRECTORY, envoyproxy/ratelimit reads files whose names begin with it.
	return program, path.Join(cmp.Or(environment["RUNTIME_ROOT"], "/srv/runtime_data/current"), environment["RUNTIME_SUBDIRECTORY"])
}

// mounted returns the ConfigMaps that a container finds in a directory.
func mounted(pod, c *goyaml.Node, dir string) (all []volume) {
	volumes := make(map[string]*goyaml.Node)
	for _, v := range list(pod, "volumes") {
		volumes[text(at(v, "name"))] = v
	}
	for _, mount := range list(c, "volumeMounts") {
		where := path.Clean(text(at(mount, "mountPath")))
		if !within(dir, where) && !within(where, dir) {
			continue
		}
		if v := volumes[text(at(mount, "name"))]; v != nil {
			for _, source := range append(list(v, "projected", "sources"), v) {
				if m := at(source, "configMap"); m != nil {
					all = append(all, volume{cmp.Or(text(at(m, "name")), "?"), taken(m, text(at(mount, "subPath")))})
				}
			}
		}
	}
	return all
}

// taken returns the entries of a ConfigMap that a mount shows; none are all.
func taken(m *goyaml.Node, subPath string) (keys []string) {
	for _, item := range list(m, "items") {
		if subPath == "" || within(text(at(item, "path")), subPath) {
			keys = append(keys, text(at(item, "key")))
		}
	}
	if len(keys) == 0 && subPath != "" {
		keys = []string{subPath}
	}
	return keys
}

// within reports whether a path is dir or lies below it.
func within(file, dir string) bool {
	return file == dir || strings.HasPrefix(file, strings.TrimSuffix(dir, "/")+"/")
}
