package script

import (
	"embed"
	"strings"
)

//go:embed lua/*.lua
var files embed.FS

// The parts of the script, each a file in lua, in the order in which they need each other. Redis runs the text anew at
// each call, so the parts of the general way stand inside one function: theirs are made only by a call that needs them.
var (
	quickWay   = []string{"constants", "leak", "chunk", "sliding_log", "quick"}
	generalWay = []string{"arguments", "fields", "fixed_window", "token_bucket", "chunk_edges", "sliding_window", "trim",
		"rulings"}
	entry = []string{"call"}
)

// Source returns the script, for SCRIPT LOAD.
func Source() string {
	var b strings.Builder
	write := func(parts []string) {
		for _, part := range parts {
			text, _ := files.ReadFile("lua/" + part + ".lua") // a missing one fails every test of the script
			b.Write(text)
		}
	}
	write(quickWay)
	b.WriteString("local function general()\n")
	write(generalWay)
	b.WriteString("return decide, tidy\nend\n")
	write(entry)
	return b.String()
}
