package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestThePipelineOfTheDocumentRuns takes the command of the pipeline out of FORMAT.md, and runs it at the top of a
// repository that holds limits/, once right and once wrong.
func TestThePipelineOfTheDocumentRuns(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(formatDocument)
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	self, err := filepath.Abs(os.Args[0])
	if err == nil {
		err = os.Symlink(self, filepath.Join(bin, "weir"))
	}
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, block := range regexp.MustCompile("(?s)```yaml\n# \\.git.*?\n```").FindAllString(string(text), -1) {
		var any map[string]any
		if err := yaml.Unmarshal([]byte(strings.Trim(strings.TrimPrefix(block, "```yaml"), "`")), &any); err != nil {
			t.Errorf("%v: a pipeline that is not YAML:\n%s", err, block)
		}
		for _, found := range regexp.MustCompile(`(?m)^ *- (?:run: )?(weir check .*)$`).FindAllStringSubmatch(block, -1) {
			commands = append(commands, found[1])
		}
	}
	if len(commands) != 1 {
		t.Fatalf("the document has the commands %q, want one for GitHub", commands)
	}
	for _, command := range commands {
		for file, want := range map[string]struct {
			code int
			text string
		}{goodShop: {0, ""}, strings.Replace(goodShop, "10,", "-1,", 1): {1, "limits/shop.yaml"}} {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "limits"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "limits", "shop.yaml"), []byte(file), 0o644); err != nil {
				t.Fatal(err)
			}
			run := exec.Command("sh", "-c", command)
			run.Dir, run.Env = dir, []string{"PATH=" + bin + ":" + os.Getenv("PATH"), asWeir + "=1"}
			out, _ := run.CombinedOutput() // its code says it
			if run.ProcessState.ExitCode() != want.code || !strings.Contains(string(out), want.text) {
				t.Errorf("%s: exit code %d, %s; want %d, and %q", command, run.ProcessState.ExitCode(), out, want.code, want.text)
			}
		}
	}
}

// TestTheDocumentNamesAllFieldsOfTheJSON compares the table with what is printed.
func TestTheDocumentNamesAllFieldsOfTheJSON(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(formatDocument)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Check it in CI")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(goodShop+"      - {key: path, valeu: 1}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var names []string
	var collect func(v reflect.Value)
	collect = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Interface:
			collect(v.Elem())
		case reflect.Map:
			for _, key := range v.MapKeys() {
				names = append(names, key.String())
				collect(v.MapIndex(key))
			}
		case reflect.Slice:
			for i := range v.Len() {
				collect(v.Index(i))
			}
		}
	}
	for _, args := range [][]string{{"check", dir, "--json"}, {"check", "../../k8s/base/config", "--json", "--explain", "user=ann,path=/pay"}} {
		out, _ := weirCommand(args...).Output()
		var document any
		if err := json.Unmarshal(out, &document); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		collect(reflect.ValueOf(document))
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !strings.Contains(section, "`"+name+"`") && !slices.Contains([]string{"fits", "why"}, name) {
			t.Errorf("the document does not name the field %s", name)
		}
	}
	if len(names) < 20 {
		t.Errorf("only %d fields were seen: %v", len(names), names)
	}
}
