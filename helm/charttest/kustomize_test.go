package charttest

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

var k8sDir = filepath.Join(root, "k8s")

// kustomizations are the folders of k8s that kubectl apply -k takes, seen from there.
func kustomizations(t *testing.T) []string {
	t.Helper()
	var dirs []string
	err := filepath.WalkDir(k8sDir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "kustomization.yaml" {
			return err
		}
		objects, err := readFile(name)
		if err == nil && objects[0].Kind() != "Component" {
			dir, _ := filepath.Rel(k8sDir, filepath.Dir(name)) // it lies below
			dirs = append(dirs, dir)
		}
		return err
	})
	if err != nil || len(dirs) < 7 {
		t.Fatalf("found %d kustomizations in k8s, %v: these tests look in the wrong place", len(dirs), err)
	}
	return dirs
}

func readFile(name string) ([]Object, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return ReadObjects(string(text))
}

// build is what kubectl kustomize makes of a folder.
func build(t *testing.T, dir string) []Object {
	t.Helper()
	out, err := exec.Command(process.Tool(t, "kubectl"), "kustomize", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl kustomize %s: %v\n%s", dir, err, out)
	}
	objects, err := ReadObjects(string(out))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// withoutLabels are objects by their names, without what tells a Helm release from a kustomization.
func withoutLabels(objects []Object) map[string]any {
	plain := make(map[string]any)
	for _, o := range objects {
		annotations, _ := o.At("metadata", "annotations").(map[string]any)
		if annotations["helm.sh/hook"] != nil {
			continue
		}
		tree := sorted(o.Tree).(map[string]any)
		meta, _ := tree["metadata"].(map[string]any) // an object without any has no name and is no object
		delete(meta, "labels")
		delete(meta, "namespace")
		plain[o.Kind()+"/"+o.Name()] = tree
	}
	return plain
}

// sorted is a copy with lists in order whose order means nothing: those of variables, volumes and mounts.
func sorted(tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		same := make(map[string]any)
		for key, value := range tree {
			same[key] = sorted(value)
		}
		for _, key := range []string{"env", "volumes", "volumeMounts"} {
			if list, isList := same[key].([]any); isList {
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
		}
		return same
	case []any:
		same := make([]any, len(tree))
		for i, value := range tree {
			same[i] = sorted(value)
		}
		return same
	}
	return tree
}

// wantSame compares what two ways of installing give.
func wantSame(t *testing.T, kustomized, charted map[string]any) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(charted)) {
		switch {
		case kustomized[name] == nil:
			t.Errorf("the chart makes %s, and the kustomization does not", name)
		case !reflect.DeepEqual(kustomized[name], charted[name]):
			t.Errorf("%s is not the same:\nkustomized %v\ncharted    %v", name, kustomized[name], charted[name])
		}
	}
	for name := range kustomized {
		if charted[name] == nil {
			t.Errorf("the kustomization makes %s, and the chart does not", name)
		}
	}
}

var imageLine = regexp.MustCompile(`(?m)^[^#\n]*\bimage: *"?([^\s"},]+)`)

// What somebody else publishes is what was looked at, by its digest; weir's own image nobody publishes but its users.
func TestImagesOfOthersArePinned(t *testing.T) {
	t.Parallel()
	others := 0
	err := filepath.WalkDir(k8sDir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(name)
		for _, image := range imageLine.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(image[1], "weirproxy/weir:") {
				continue
			}
			if others++; !regexp.MustCompile(`^[^:@]+:[^:@]*\d\.\d[^:@]*@sha256:[0-9a-f]{64}$`).MatchString(image[1]) {
				t.Errorf("%s runs %s: write name:version@sha256:digest", name, image[1])
			}
		}
		return err
	})
	if err != nil || others == 0 {
		t.Errorf("found %d images of others in k8s, %v: this test looks in the wrong place", others, err)
	}
}

// renderedInWeir is what the chart makes in the namespace whose names the kustomizations list in ADMIN_HOSTS.
func renderedInWeir(t *testing.T, values map[string]any) []Object {
	t.Helper()
	r, err := renderIn(t, "weir", "weir", values)
	if err != nil {
		t.Fatal(err)
	}
	return r.Objects
}

// Kustomize makes up no token, so the base has none; with the component it has that of a Secret.
func TestTheBaseIsWhatTheChartGivesByDefault(t *testing.T) {
	t.Parallel()
	for dir, token := range map[string]string{filepath.Join(k8sDir, "base"): "create: false",
		filepath.Join("testdata", "admin-token"): "existingSecret: weir-admin-token"} {
		wantSame(t, withoutLabels(build(t, dir)), withoutLabels(renderedInWeir(t, valuesOf(t, "admin: {token: {"+token+"}}"))))
	}
}

func TestTheOverlaysAreWhatTheChartGives(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"ha-sentinel", "cluster", "ring", "mtls"} {
		t.Run(overlay, func(t *testing.T) {
			dir := filepath.Join(k8sDir, "overlays", overlay)
			values, err := ReadValues(filepath.Join(dir, "values.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			wantSame(t, withoutLabels(build(t, dir)), withoutLabels(renderedInWeir(t, values)))
		})
	}
}
