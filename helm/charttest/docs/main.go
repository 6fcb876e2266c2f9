// Command docs writes the table of values into the chart's README, and the schema of descriptor files into that of the values.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/weirproxy/weir/helm/charttest"
)

func main() {
	dir := flag.String("chart", "../weir", "the chart's folder")
	module := flag.String("module", "../..", "the folder of weir's module")
	flag.Parse()
	if err := errors.Join(write(*dir), embed(*dir, *module)); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	name := filepath.Join(dir, "README.md")
	readme, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	values, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil {
		return err
	}
	documented, err := charttest.Document(string(readme), string(values))
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(documented), 0o644)
}

func embed(dir, module string) error {
	name := filepath.Join(dir, "values.schema.json")
	values, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	schema := exec.Command("go", "run", "./cmd/weir", "schema")
	schema.Dir, schema.Stderr = module, os.Stderr
	file, err := schema.Output()
	if err != nil {
		return fmt.Errorf("%v: %w", schema, err)
	}
	embedded, err := charttest.EmbedFileSchema(string(values), string(file))
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(embedded), 0o644)
}
