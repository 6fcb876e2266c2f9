// Command docs writes the table of values into the chart's README.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weirproxy/weir/helm/charttest"
)

func main() {
	dir := flag.String("chart", "../weir", "the chart's folder")
	flag.Parse()
	if err := write(*dir); err != nil {
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
