package charttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

func TestWhatIsMadeOfTheValuesIsCurrent(t *testing.T) {
	t.Parallel()
	dir, files := t.TempDir(), []string{"README.md", "values.schema.json", "values.yaml"}
	for _, name := range files {
		text := readText(t, filepath.Join(chartDir, name))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	schema, _ := process.Command(t, nil, weirBinary, "schema")
	docs := exec.Command("go", "run", "./docs", "-chart", dir)
	docs.Stdin = strings.NewReader(schema)
	if out, err := docs.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", docs, err, out)
	}
	for _, name := range files {
		if readText(t, filepath.Join(dir, name)) != readText(t, filepath.Join(chartDir, name)) {
			t.Errorf("helm/weir/%s is not made of values.yaml and of what weir schema prints: run make chart-docs", name)
		}
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
	if service := "outbound|8081||limits-weir.limits.svc.cluster.local"; !strings.Contains(shown[0].Text, service) {
		t.Errorf("the notes show no filter that asks this release's Service:\n%s", shown[0].Text)
	}
	wantPatch(t, "the cluster in the notes", "CLUSTER", shown[1].Tree)

	made := render(t, "limits", valuesOf(t, "istio: {gateway: {enabled: true}}"))
	wantSame(t, shown[:1], ofKind(made.Objects, "EnvoyFilter"))
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

// What documents show is what their APIs take, and the chart: the values of the migration guide make a weir in the place
// of envoyproxy/ratelimit.
func TestWhatTheDocumentsShowIsWhatTheirAPIsTake(t *testing.T) {
	t.Parallel()
	migration := filepath.Join(root, "cmd", "weir", "MIGRATION.md")
	for _, name := range []string{filepath.Join(chartDir, "README.md"), filepath.Join(k8sDir, "README.md")} {
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
	shown := 0
	for _, m := range fencedYAML.FindAllStringSubmatch(readText(t, migration), -1) {
		if !strings.Contains(m[1], "program: ratelimit") {
			continue
		}
		if c := render(t, "weir", valuesOf(t, m[1])).pod(t, "server").Containers[0]; c.Command[0] != "/bin/ratelimit" {
			t.Errorf("what %s shows starts %v", migration, c.Command)
		}
		shown++
	}
	if shown == 0 {
		t.Errorf("%s shows no values", migration)
	}
}
