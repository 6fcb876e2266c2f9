// Package charttest renders the chart in helm/weir as Helm does, and reads what comes out. Its tests hold the chart, the
// kustomizations in k8s and their documents to what they promise, without a cluster.
package charttest

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"
)

// Rendered is what Helm makes of a release.
type Rendered struct {
	Objects []Object // in the order of the templates' names; test hooks are among them
	Notes   string
}

// Render renders a release of a chart. Its error is what the schema or the templates say to a user.
func Render(c *chart.Chart, namespace, name string, values map[string]any) (*Rendered, error) {
	release := common.ReleaseOptions{Name: name, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(c, values, release, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	var out Rendered
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Base(name) == "NOTES.txt" {
			out.Notes = files[name]
			continue
		}
		objects, err := ReadObjects(files[name])
		if err != nil {
			return nil, fmt.Errorf("%s does not render to YAML: %w\n%s", name, err, files[name])
		}
		out.Objects = append(out.Objects, objects...)
	}
	return &out, nil
}

// Object is one object of Kubernetes: its YAML, and the same as maps and lists.
type Object struct {
	Text string
	Tree map[string]any
}

// ReadObjects reads YAML documents; empty ones are left out.
func ReadObjects(text string) ([]Object, error) {
	var objects []Object
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var node yaml.Node
		if err := decoder.Decode(&node); err != nil {
			if err.Error() == "EOF" {
				return objects, nil
			}
			return nil, err
		}
		tree := map[string]any{}
		if err := node.Decode(&tree); err != nil {
			return nil, err
		}
		if len(tree) == 0 {
			continue
		}
		document, err := yaml.Marshal(&node)
		if err != nil {
			return nil, err
		}
		objects = append(objects, Object{Text: string(document), Tree: tree})
	}
}

// At is what stands at a path of keys, nil if nothing does.
func (o Object) At(keys ...string) any {
	var at any = o.Tree
	for _, key := range keys {
		m, isMap := at.(map[string]any)
		if !isMap {
			return nil
		}
		at = m[key]
	}
	return at
}

// String is kind/namespace/name.
func (o Object) String() string {
	return fmt.Sprintf("%s/%s/%s", o.Kind(), o.Namespace(), o.Name())
}

// Kind is the object's kind.
func (o Object) Kind() string { return text(o.At("kind")) }

// Name is the object's name.
func (o Object) Name() string { return text(o.At("metadata", "name")) }

// Namespace is the object's namespace, empty if it names none.
func (o Object) Namespace() string { return text(o.At("metadata", "namespace")) }

func text(value any) string {
	s, _ := value.(string) // what is no text is missing
	return s
}
