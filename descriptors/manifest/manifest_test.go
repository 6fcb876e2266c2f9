package manifest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors/manifest"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// limits is a descriptor file of one domain, indented as an entry of a ConfigMap is.
func limits(domain string) string {
	return "    domain: " + domain + "\n    descriptors:\n      - {key: user, rate_limit: {requests_per_unit: 1, unit: day}}\n"
}

func configMap(name string, entries ...string) string {
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata:\n"
	for i := 0; i < len(entries); i += 2 {
		text += "  " + entries[i] + ": |\n" + entries[i+1]
	}
	return text
}

// deployment runs a container whose fields are given, in a pod with a ConfigMap as its volume.
func deployment(container, configMap string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: limits}\nspec:\n  template:\n    spec:\n" +
		"      containers:\n        - " + strings.ReplaceAll(container, "\n", "\n          ") + "\n" +
		"      volumes: [{name: mine, configMap: {name: " + configMap + "}}]\n"
}

const weirContainer = "command: [/bin/weir]\nargs: [serve, --config, /etc/weir]"

func TestReadChoosesTheConfigMapsOfWeir(t *testing.T) {
	for promise, test := range map[string]struct {
		manifests []string
		read      []string // parts
		leftOut   string
		problem   string
	}{
		"one alone is read, whatever it holds": {[]string{configMap("a", "x", "    nothing: here\n")}, []string{"a/x"}, "", ""},
		"of several, those that name a domain": {
			[]string{configMap("a", "x.yaml", limits("shop")), configMap("ring", "url", "    a:1,b:2\n")},
			[]string{"a/x.yaml"}, "ConfigMap ring (line 10): nothing in it names a domain", ""},
		"all entries of one that names a domain, as weir reads all files": {
			[]string{configMap("a", "x", limits("shop"), "y", "    broken: [\n"), configMap("ring", "url", "    a\n")},
			[]string{"a/x", "a/y"}, "ring", ""},
		"what weir mounts, and nothing else that names a domain": {
			[]string{configMap("mine", "x", limits("shop"), "y", "    dmain: bank\n"), configMap("other", "x", limits("shop")), deployment(weirContainer, "mine")},
			[]string{"mine/x", "mine/y"}, "ConfigMap other (line 12): no pod that serves limits mounts it", ""},
		"other programs with such a flag are not weir": {
			[]string{configMap("mine", "relay.yaml", "    receivers: {}\n"), configMap("other", "x", limits("b")),
				deployment("args: [--config, /etc/otel]", "mine")},
			[]string{"other/x"}, "ConfigMap mine", ""},
		"lists": {
			[]string{"apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(configMap("a", "x", limits("shop")), "\n", "\n  ")},
			[]string{"a/x"}, "", ""},
		"binaryData is refused": {
			[]string{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nbinaryData:\n  x.yaml: ZG9tYWluOiBhCg==\n"}, nil, "",
			"a.yaml:5 (a/x.yaml): an entry of binaryData is not checked: put the file into data, as text"},
		"an entry that is a mapping is refused": {
			[]string{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x.yaml:\n    domain: shop\n"}, nil, "",
			"a.yaml:5 (a/x.yaml): an entry of a ConfigMap is text: put | behind x.yaml:"},
		"hidden files": {[]string{configMap("a", ".x", limits("a"), "y", limits("b"))}, []string{"a/y"}, "a/.x (line 5)", ""},
		"what is no manifest among them": {
			[]string{configMap("a", "x", limits("a")), "domain: shop\n"}, []string{"a/x"}, "",
			"a.yaml:10: this document is no Kubernetes manifest"},
		"a stream that breaks off": {
			[]string{configMap("a", "x", limits("a")), "a: [\n"}, []string{"a/x"}, "", "not valid YAML"},
		"no ConfigMap": {[]string{"apiVersion: v1\nkind: Service\n"}, nil, "", "no ConfigMap here holds descriptor files"},
	} {
		t.Run(promise, func(t *testing.T) {
			m, isManifest := manifest.Read("a.yaml", []byte(strings.Join(test.manifests, "---\n")))
			if !isManifest {
				t.Fatal("these are taken for no manifests")
			}
			var read []string
			for _, f := range m.Files {
				read = append(read, f.Part.Name)
			}
			leftOut, problems := strings.Join(m.LeftOut, "\n"), fmt.Sprint(m.Problems.Err())
			if !slices.Equal(read, test.read) || !strings.Contains(leftOut, test.leftOut) || (test.leftOut == "") != (leftOut == "") ||
				!strings.Contains(problems, test.problem) || (test.problem == "") != (len(m.Problems) == 0) {
				t.Errorf("%s\nread %q, want %q\nleft out %q, want %q\nproblems %s, want %q", strings.Join(test.manifests, "---\n"), read, test.read,
					leftOut, test.leftOut, problems, test.problem)
			}
		})
	}
}

func TestDescriptorFileIsNoManifest(t *testing.T) {
	for _, text := range []string{"", "domain: shop\n", "a: [", "- 1\n", "domain: shop\n---\napiVersion: v1\nkind: ConfigMap\n",
		"domain: shop\nkind: ConfigMap\napiVersion: v1\n"} {
		if _, isManifest := manifest.Read("a.yaml", []byte(text)); isManifest {
			t.Errorf("%q is taken for manifests", text)
		}
	}
}

// TestProblemsNameTheManifestsLine writes the same fault in all ways in which an entry can be written.
func TestProblemsNameTheManifestsLine(t *testing.T) {
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n"
	for promise, test := range map[string]struct {
		entry string
		line  int
	}{
		"block":                            {"  x.yaml: |\n    domain: shop\n    descriptors:\n      - {key: user, valeu: 1}\n", 8},
		"block with a comment at its head": {"  x.yaml: |- # limits\n    domain: shop\n    descriptors:\n      - {key: user, valeu: 1}\n", 8},
		"block that begins with lines without text": {
			"  x.yaml: |\n\n\n    domain: shop\n    descriptors:\n      - {key: user, valeu: 1}\n", 10},
		"block on a line of its own": {"  x.yaml:\n    |\n    domain: shop\n    descriptors:\n      - {key: user, valeu: 1}\n", 9},
		"quoted, its entry":          {`  x.yaml: "domain: shop\ndescriptors:\n  - {key: user, valeu: 1}\n"` + "\n", 5},
		"folded, its entry":          {"  x.yaml: >\n    domain: shop\n\n    descriptors: [{key: user, valeu: 1}]\n", 5},
		"a fault that the YAML library finds": {
			"  x.yaml: |\n    domain: shop\n    descriptors:\n      - {key: user, value: [}\n      - {key: b}\n", 8},
	} {
		t.Run(promise, func(t *testing.T) {
			m, isManifest := manifest.Read("a.yaml", []byte(head+test.entry))
			if !isManifest || len(m.Problems) > 0 {
				t.Fatal(isManifest, m.Problems)
			}
			problems := yaml.NewLastGood(yaml.Options{}).Update(m.Files, nil).Problems
			problems = slices.DeleteFunc(problems, func(p yaml.Problem) bool { return p.Part != "a/x.yaml" })
			if len(problems) != 1 || problems[0].Line != test.line || problems[0].File != "a.yaml" {
				t.Errorf("%s%s\nproblems %v, want one, of a.yaml line %d", head, test.entry, problems, test.line)
			}
		})
	}
}

// What one message says of another place is as true as where it stands.
func TestProblemsNameOtherLinesOfTheManifest(t *testing.T) {
	text := configMap("a", "x", limits("shop"), "y", limits("shop"))
	m, _ := manifest.Read("a.yaml", []byte(text))
	update := yaml.NewLastGood(yaml.Options{}).Update(m.Files, nil)
	if err := update.Problems.Err(); err == nil || !strings.HasPrefix(err.Error(),
		"a.yaml:10 (a/y): domain shop: this domain is already configured at a.yaml:6") {
		t.Errorf("got %v, want the true lines of both files", err)
	}
}

func TestReadFindsTheContainersVariables(t *testing.T) {
	const env = "\nenv: [{name: ALGORITHM, value: fixed_window}, {name: REDIS_AUTH, valueFrom: {}}]"
	for container, program := range map[string]string{weirContainer: "weir", "command: [/bin/ratelimit]": "ratelimit",
		"args: [--config, /etc/otel]": "", "args: {}": ""} {
		m, _ := manifest.Read("a.yaml", []byte(configMap("mine", "x", limits("a"))+"---\n"+deployment(container+env, "mine")))
		if m.Program != program || program != "" && (len(m.Environment) != 1 || m.Environment["ALGORITHM"] != "fixed_window") {
			t.Errorf("%s: got %s %v, want %s and its ALGORITHM", container, m.Program, m.Environment, program)
		}
	}
}

// FuzzRead holds that no input can end the process, and that all that is read has a place.
func FuzzRead(f *testing.F) {
	f.Add(configMap("mine", "x", limits("a")) + "---\n" + deployment(weirContainer, "mine"))
	f.Add("apiVersion: v1\nkind: List\nitems: [&a {apiVersion: v1, kind: List, items: [*a]}]\n")
	f.Add("apiVersion: v1\nkind: ConfigMap\ndata: {x: &a 1, y: *a, [1]: 2}\nbinaryData: []\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, isManifest := manifest.Read("a.yaml", []byte(text))
		if !isManifest {
			return
		}
		yaml.NewLastGood(yaml.Options{}).Update(m.Files, nil)
		for _, file := range m.Files {
			if part := file.Part; part.File != "a.yaml" || part.Name == "" || part.Line(1) < 1 {
				t.Errorf("%q: %q has the place %+v", text, file.Name, part)
			}
		}
	})
}

// Manifests of a few kilobytes must not take more than a machine holds, whatever their aliases say, nor hours.
func TestHostileManifestsAreReadCheaply(t *testing.T) {
	const list = "apiVersion: v1\nkind: List\nitems:\n"
	lists := list + "- &l0 {apiVersion: v1, kind: ConfigMap, data: {a.yaml: \"domain: a\"}}\n"
	for i := 1; i < 9; i++ {
		lists += fmt.Sprintf("- &l%d {apiVersion: v1, kind: List, items: [%s]}\n", i, strings.Repeat(fmt.Sprintf("*l%d, ", i-1), 30))
	}
	texts := "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: &t \"domain: a # " + strings.Repeat("x", 1<<20) + "\"\n"
	for i := range 2000 {
		texts += fmt.Sprintf("  k%d: *t\n", i)
	}
	pod := "apiVersion: v1\nkind: Pod\nspec:\n  containers: [" + strings.Repeat("{command: [ratelimit]}, ", 9000) + "]\n  volumes: [" +
		strings.Repeat("{}, ", 2000) + "]\n"
	for name, text := range map[string]string{"lists of lists": lists, "one text many times": texts, "many containers with many volumes": pod,
		"a list that holds itself": strings.Replace(list, "apiVersion", "&l\napiVersion", 1) + "- *l\n"} {
		m, isManifest := manifest.Read("f", []byte(text))
		if !isManifest || len(m.Files) > 0 || len(m.Problems) != 1 || !strings.Contains(m.Problems[0].Text, "too much to read: with its YAML aliases followed") {
			t.Errorf("%s: got %d files and %v; want one error", name, len(m.Files), m.Problems)
		}
	}
}
