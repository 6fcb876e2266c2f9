package main

import (
	"io"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
)

type schemaCommand struct{}

func (schemaCommand) Help() string {
	return `Editors that speak to a YAML language server check a descriptor file as it is written if it has the line

    # yaml-language-server: $schema=` + descriptors.SchemaURL + `

or the path of a file in place of that address:

    weir schema > schema.json`
}

func (schemaCommand) Run(out terminal.Output) error {
	_, err := io.WriteString(out.Out, descriptors.Schema)
	return err
}
