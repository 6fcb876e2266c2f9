package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// What users save from the command must be what the repository's address serves.
func TestSchemaPrintsTheCommittedSchema(t *testing.T) {
	var out bytes.Buffer
	if err := (schemaCommand{}).Run(terminal.Output{Out: &out}); err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile("../../descriptors/schema.json")
	if err != nil || out.String() != string(committed) {
		t.Errorf("weir schema prints\n%.300s…\nwant descriptors/schema.json (%v)", out.String(), err)
	}
	if !strings.Contains(schemaCommand{}.Help(), "# yaml-language-server: $schema=https://raw.githubusercontent.com/weirproxy/weir/main/descriptors/schema.json\n") {
		t.Errorf("the help must hold the line that editors look for:\n%s", schemaCommand{}.Help())
	}
}
