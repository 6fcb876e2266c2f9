package charttest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
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
func TestNotesShowValidEnvoyAndIstioObjects(t *testing.T) {
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
func TestObjectsInDocumentsAreValid(t *testing.T) {
	t.Parallel()
	migration := filepath.Join(root, "cmd", "weir", "MIGRATION.md")
	for _, name := range []string{filepath.Join(chartDir, "README.md"), filepath.Join(k8sDir, "README.md")} {
		if shown := snippets(t, readText(t, name)); len(shown) == 0 {
			t.Errorf("%s shows no object", name)
		}
	}
	for _, name := range []string{filepath.Join(chartDir, "README.md"), migration} {
		if text := readText(t, name); strings.Contains(text, " --reuse-values") || !strings.Contains(text, " --reset-then-reuse-values") {
			t.Errorf("%s has upgrades keep the old chart's defaults, its image's digest too: write --reset-then-reuse-values", name)
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

// A section is what the runbook says of one alert.
type section struct {
	commands []command
	queries  []string // PromQL
}

// A command is what the runbook has people paste, and what it says of the answer.
type command struct {
	line   string
	prints []string // each a line of what it prints; … stands for anything
}

var fencedBlock = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```")

// readRunbook reads the sections, by their headings.
func readRunbook(t *testing.T) map[string]section {
	t.Helper()
	sections := make(map[string]section)
	for _, part := range strings.Split(readText(t, filepath.Join(root, "cmd", "weir", "RUNBOOK.md")), "\n## ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		sections[heading] = readSection(t, text)
	}
	return sections
}

func readSection(t *testing.T, text string) (s section) {
	t.Helper()
	for _, block := range fencedBlock.FindAllStringSubmatch(text, -1) {
		switch block[1] {
		case "promql":
			s.queries = append(s.queries, block[2])
		case "sh":
			for line := range strings.Lines(block[2]) {
				line = strings.TrimSuffix(line, "\n")
				if prints, is := strings.CutPrefix(line, "#> "); is {
					last := &s.commands[len(s.commands)-1]
					last.prints = append(last.prints, prints)
				} else {
					s.commands = append(s.commands, command{line: line})
				}
			}
		default:
			t.Fatalf("the runbook has a block of %q, which no test reads", block[1])
		}
	}
	return s
}

// missingIn says what a command should have printed and has not, or nothing.
func (c command) missingIn(out string) string {
	for _, want := range c.prints {
		line := regexp.MustCompile("(?m)^" + strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*") + "$")
		if !line.MatchString(out) {
			return fmt.Sprintf("it should print %q, but prints\n%s", want, out)
		}
	}
	return ""
}

var (
	weirLine    = regexp.MustCompile(`\bweir ([a-z][^|;]*)`)
	metricsLine = regexp.MustCompile(`^metrics '?([^' ]+)`)
)

// Each command of weir in the runbook is one that weir has, with these flags, and each metric that is looked for is one that
// weir shows.
func TestRunbookNamesRealCommandsAndMetrics(t *testing.T) {
	t.Parallel()
	shown := strings.Join(slices.Collect(maps.Keys(metricsDocument(t))), "\n")
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	commands, metrics := 0, 0
	for heading, section := range readRunbook(t) {
		for _, c := range section.commands {
			line := strings.NewReplacer(` "$@"`, "", `"$TOKEN"`, token).Replace(c.line)
			line = regexp.MustCompile(`^ask `).ReplaceAllString(line, "weir call ")
			for _, m := range weirLine.FindAllStringSubmatch(line, -1) {
				commands++
				if out, code := process.Command(t, nil, process.Weir(t), append(strings.Fields(m[1]), "--help")...); code != 0 {
					t.Errorf("RUNBOOK.md, %s: %s\n%s", heading, c.line, out)
				}
			}
			for _, m := range metricsLine.FindAllStringSubmatch(line, -1) {
				metrics++
				if !regexp.MustCompile("(?m)^weir_(" + m[1] + ")").MatchString(shown) {
					t.Errorf("RUNBOOK.md, %s: %s finds nothing", heading, c.line)
				}
			}
		}
	}
	if commands < 14 || metrics < 15 {
		t.Errorf("the runbook has %d commands of weir, and looks for %d metrics: this test reads it wrongly", commands, metrics)
	}
}
