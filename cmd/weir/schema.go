package main

import (
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors/yaml"
)

type schemaCommand struct{}

func (schemaCommand) Help() string {
	return `Editors that speak to a YAML language server check a descriptor file as it is written if it has the line

    # yaml-language-server: $schema=` + yaml.SchemaURL + `

or the path of a file in place of that address:

    weir schema > schema.json`
}

func (schemaCommand) Run(out terminal.Output) error {
	_, err := out.Out.Write(yaml.Schema())
	return err
}
