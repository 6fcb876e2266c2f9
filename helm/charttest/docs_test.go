package charttest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var fencedYAML = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")

// snippets are the objects of Kubernetes and of Envoy that a document shows: blocks of YAML, fenced, or indented by four
// spaces. Each must be what its API takes.
func snippets(t *testing.T, document string) (objects []Object) {
	t.Helper()
	var blocks []string
	for _, m := range fencedYAML.FindAllStringSubmatch(document, -1) {
		blocks = append(blocks, m[1])
	}
	for _, m := range regexp.MustCompile(`(?m)(?:^    .*\n)+`).FindAllString(document, -1) {
		blocks = append(blocks, regexp.MustCompile(`(?m)^    `).ReplaceAllString(m, ""))
	}
	for _, block := range blocks {
		if !regexp.MustCompile(`(?m)^(apiVersion|typed_config|load_assignment|rate_limits):`).MatchString(block) {
			continue
		}
		found := objectsIn(t, "a document", block)
		for _, o := range found {
			switch {
			case o.Kind() == "Kustomization":
			case o.Kind() != "":
				decode(t, o)
				wantEnvoyTakes(t, o)
			case o.At("load_assignment") != nil:
				wantPatch(t, "the cluster in a document", "CLUSTER", o.Tree)
			case o.At("rate_limits") != nil:
				wantPatch(t, "the virtual host in a document", "VIRTUAL_HOST", o.Tree)
			default:
				wantPatch(t, "the filter in a document", "HTTP_FILTER", o.Tree)
			}
		}
		objects = append(objects, found...)
	}
	return objects
}

// What people paste works: it is the same, whether they read it in the notes or let the chart make it. Where weir serves by
// TLS, an Envoy of one's own has to be told so, and for whom to take it.
func TestWhatTheNotesShowIsWhatEnvoyAndIstioTake(t *testing.T) {
	t.Parallel()
	shown := snippets(t, render(t, "limits", nil).Notes)
	if service := "outbound|8081||limits-weir.limits.svc.cluster.local"; len(shown) != 2 || !strings.Contains(shown[0].Text, service) {
		t.Fatalf("the notes show %v, want an EnvoyFilter that asks this release's Service, and a cluster", shown)
	}
	made := render(t, "limits", valuesOf(t, "istio: {gateway: {enabled: true}}"))
	wantSame(t, shown[:1], ofKind(made.Objects, "EnvoyFilter"))

	if shown := snippets(t, render(t, "limits", valuesOf(t, "mode: sidecar")).Notes); len(shown) != 3 {
		t.Errorf("beside an Envoy the notes show %v, want a filter, a cluster and rate_limits", shown)
	}
	for _, clientCA := range []string{"", "ca.crt"} {
		notes := render(t, "limits", valuesOf(t, "grpc: {tls: {enabled: true, existingSecret: grpc-tls, clientCAKey: '"+clientCA+"'}}")).Notes
		shown := snippets(t, notes)
		if len(shown) != 3 || strings.Contains(shown[2].Text, "tls_certificates") != (clientCA != "") ||
			!strings.Contains(shown[2].Text, "exact: limits-weir.limits.svc.cluster.local") {
			t.Errorf("with clientCAKey %q the notes show %v; want rate_limits, a filter and a cluster that takes weir alone for weir, "+
				"and presents a certificate where one is asked for", clientCA, shown)
		}
	}
}

// What documents show is what their APIs take, and the chart: the values of the migration guide make a weir in the place
// of envoyproxy/ratelimit.
func TestWhatTheDocumentsShowIsWhatTheirAPIsTake(t *testing.T) {
	t.Parallel()
	migration := filepath.Join(root, "cmd", "weir", "MIGRATION.md")
	for _, name := range []string{filepath.Join(chartDir, "README.md"), filepath.Join(k8sDir, "README.md")} {
		if shown := snippets(t, readText(t, name)); len(shown) == 0 {
			t.Errorf("%s shows no object", name)
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
