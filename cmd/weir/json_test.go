package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
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
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("the document does not name the field %s", name)
		}
	}
	if len(names) < 20 {
		t.Errorf("only %d fields were seen: %v", len(names), names)
	}
}
