package charttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTheTableOfValuesIsCurrent(t *testing.T) {
	t.Parallel()
	readme := readText(t, filepath.Join(chartDir, "README.md"))
	documented, err := Document(readme, readText(t, filepath.Join(chartDir, "values.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	if documented != readme {
		t.Error("helm/weir/README.md does not say what values.yaml says: run make chart-docs")
	}
}

// One comment explains the lines below it and a whole mapping; a value that none explains is an error.
func TestTheTableOfValuesHasARowForEachComment(t *testing.T) {
	t.Parallel()
	const values = `# -- Where weir listens.
host: ""
port: 8081
tls:
  # -- Files of a Secret.
  files: {cert: tls.crt, key: tls.key}
# -- The pods'.
labels:
  mesh: "false"
`
	const want = "| `host`, `port` | `\"\"`, `8081` | Where weir listens. |\n" +
		"| `tls.files` | `{cert: tls.crt, key: tls.key}` | Files of a Secret. |\n" +
		"| `labels` | `{mesh: \"false\"}` | The pods'. |\n"
	if got, err := Document(tableBegin+tableEnd, values); err != nil || !strings.Contains(got, want) {
		t.Errorf("got %v and\n%s\nwant\n%s", err, got, want)
	}
	for _, unexplained := range []string{"a: 1\n", "# -- One.\na: 1\n\nb: 2\n", "# -- One.\na: {}\nb:\n  c: 1\n"} {
		if got, err := Document(tableBegin+tableEnd, unexplained); err == nil {
			t.Errorf("nothing explains a value of\n%s\nand the table is\n%s", unexplained, got)
		}
	}
}

func TestTheSchemaOfDescriptorFilesIsCurrent(t *testing.T) {
	t.Parallel()
	values := readText(t, filepath.Join(chartDir, "values.schema.json"))
	printed, err := exec.Command(weirBinary, "schema").Output()
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := EmbedFileSchema(values, string(printed))
	if err != nil {
		t.Fatal(err)
	}
	if embedded != values {
		t.Error("helm/weir/values.schema.json is not made of what weir schema prints: run make chart-docs")
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var fencedYAML = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")

// snippets are the objects that a document shows: blocks of YAML, fenced, or indented by four spaces.
func snippets(t *testing.T, document string) (objects []Object) {
	t.Helper()
	var blocks []string
	for _, m := range fencedYAML.FindAllStringSubmatch(document, -1) {
		blocks = append(blocks, m[1])
	}
	for _, m := range regexp.MustCompile(`(?m)(?:^(?:    .*)?\n)+`).FindAllString(document, -1) {
		blocks = append(blocks, regexp.MustCompile(`(?m)^    `).ReplaceAllString(m, ""))
	}
	for _, block := range blocks {
		if !strings.Contains(block, "apiVersion:") && !strings.Contains(block, "load_assignment:") {
			continue
		}
		found, err := ReadObjects(block)
		if err != nil {
			t.Fatalf("a document shows YAML that is none: %v\n%s", err, block)
		}
		objects = append(objects, found...)
	}
	return objects
}

// What people paste works: it is the same, whether they read it in the notes or let the chart make it.
func TestWhatTheNotesShowIsWhatEnvoyAndIstioTake(t *testing.T) {
	t.Parallel()
	shown := snippets(t, render(t, "limits", nil).Notes)
	if len(shown) != 2 {
		t.Fatalf("the notes show %d objects, want an EnvoyFilter and a cluster", len(shown))
	}
	decode(t, shown[0])
	const cluster = "outbound|8081||limits-weir.limits.svc.cluster.local"
	if wantEnvoyTakes(t, shown[0]) != 1 || !strings.Contains(shown[0].Text, cluster) {
		t.Errorf("the notes show no rate-limit filter that asks this release's Service:\n%s", shown[0].Text)
	}
	wantPatch(t, "the cluster in the notes", "CLUSTER", shown[1].Tree)

	made := render(t, "limits", map[string]any{"istio": map[string]any{"gateway": map[string]any{"enabled": true}}})
	wantSame(t, withoutLabels(shown[:1]), onlyKind(withoutLabels(made.Objects), "EnvoyFilter"))
}

// Where weir serves by TLS, an Envoy of one's own has to be told so, and for whom to take it.
func TestTheNotesShowAClusterThatTalksTLS(t *testing.T) {
	t.Parallel()
	for _, clientCA := range []string{"", "ca.crt"} {
		notes := render(t, "limits", valuesOf(t, "grpc: {tls: {enabled: true, existingSecret: grpc-tls, clientCAKey: '"+clientCA+"'}}")).Notes
		shown := snippets(t, notes)
		if len(shown) != 1 {
			t.Fatalf("the notes show %d objects, want one cluster", len(shown))
		}
		wantPatch(t, "the cluster in the notes", "CLUSTER", shown[0].Tree)
		wantAsked(t, notes)
		if presents := strings.Contains(shown[0].Text, "tls_certificates"); presents != (clientCA != "") {
			t.Errorf("with clientCAKey %q the cluster presents a certificate: %v", clientCA, presents)
		}
		if !strings.Contains(shown[0].Text, "exact: limits-weir.limits.svc.cluster.local") {
			t.Errorf("the cluster takes any server for weir:\n%s", shown[0].Text)
		}
	}
}

func onlyKind(objects map[string]any, kind string) map[string]any {
	only := make(map[string]any)
	for name, o := range objects {
		if strings.HasPrefix(name, kind+"/") {
			only[name] = o
		}
	}
	return only
}

func TestNotesWarnOfWhatCouldSurprise(t *testing.T) {
	t.Parallel()
	const redis = "redis: {addresses: ['redis:6379']}\n"
	for _, tc := range []struct{ values, want, never string }{
		{"{}", "weir counts in memory, in one process, and counters and history end with its pod", ""},
		{redis + "replicas: 1", "NOTE: one replica", ""},
		{"mesh: {failureModeDeny: true}", "Envoy refuses requests (failure_mode_deny: true)", ""},
		{redis, "While Redis is away, weir lets requests pass (redis.onFailure: allow)", ""},
		{"redis: {addresses: ['redis:6379'], onFailure: error}", "While Redis is away, weir gives none (redis.onFailure: error)", ""},
		{"mode: sidecar", "each pod has limits of its own", ""},
		{"envoyGateway: {patchPolicy: {enabled: true}}", "The Gateway eg asks it for domain shop, on limits/eg/http and nowhere else", ""},
		{"descriptors: {api.yaml: 'domain: api'}", "none of descriptors configures the domain shop", ""},
		{"descriptors: {a.yaml: 'domain: a', shop.yaml: 'domain: shop'}", "", "none of descriptors"},
		{"descriptors: {a.yaml: 'domain: a'}\nexistingConfigMaps: [limits-of-shop]", "", "none of descriptors"}, // may be there
	} {
		notes := render(t, "weir", valuesOf(t, tc.values)).Notes
		if !strings.Contains(notes, tc.want) || tc.never != "" && strings.Contains(notes, tc.never) {
			t.Errorf("with %s the notes must say %q, and not %q:\n%s", tc.values, tc.want, tc.never, notes)
		}
	}
}

// What documents show is what their APIs take.
func TestWhatTheDocumentsShowIsWhatTheirAPIsTake(t *testing.T) {
	t.Parallel()
	for _, name := range []string{filepath.Join(chartDir, "README.md"), filepath.Join(k8sDir, "README.md"), migration} {
		shown := snippets(t, readText(t, name))
		if len(shown) == 0 {
			t.Errorf("%s shows no object", name)
		}
		for _, o := range shown {
			if o.Kind() != "Kustomization" {
				decode(t, o)
				wantEnvoyTakes(t, o)
			}
		}
	}
}

// migration tells how to move from envoyproxy/ratelimit to weir.
var migration = filepath.Join(root, "cmd", "weir", "MIGRATION.md")

// The values that the migration guide shows make a weir in the place of envoyproxy/ratelimit.
func TestTheValuesThatTheMigrationShowsRender(t *testing.T) {
	t.Parallel()
	shown := 0
	for _, m := range fencedYAML.FindAllStringSubmatch(readText(t, migration), -1) {
		if !strings.Contains(m[1], "program: ratelimit") {
			continue
		}
		if d := render(t, "weir", valuesOf(t, m[1])).deployment(t); d.Spec.Template.Spec.Containers[0].Command[0] != "/bin/ratelimit" {
			t.Errorf("what %s shows starts %v", migration, d.Spec.Template.Spec.Containers[0].Command)
		}
		shown++
	}
	if shown == 0 {
		t.Errorf("%s shows no values", migration)
	}
}
