package main

import (
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors/yaml"
)

type schemaCommand struct {
	Values bool `help:"Print that of files which are given as values, as those of a Helm chart: numbers and flags are no texts there."`
}

func (schemaCommand) Help() string {
	return `Editors that speak to a YAML language server check a descriptor file as it is written if it has the line

    # yaml-language-server: $schema=` + yaml.SchemaURL + `

or the path of a file in place of that address:

    weir schema > schema.json`
}

func (c schemaCommand) Run(out terminal.Output) error {
	schema := yaml.Schema()
	if c.Values {
		schema = yaml.ValuesSchema()
	}
	_, err := out.Out.Write(schema)
	return err
}
