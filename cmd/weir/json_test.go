package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

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
	for _, args := range [][]string{{"check", dir, "--json"}, {"check", "../../k8s/base/config", "--json", "--explain", "user=ann + user=bob"}} {
		out, _ := weirCommand(args...).Output()
		if !json.Valid(out) {
			t.Fatalf("no JSON: %s", out)
		}
		for _, found := range regexp.MustCompile(`"([a-z_]+)":`).FindAllStringSubmatch(string(out), -1) {
			names = append(names, found[1])
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("the document does not name the field %s", name)
		}
	}
	if len(names) < 20 {
		t.Errorf("only %d fields were seen: %v", len(names), names)
	}
}
