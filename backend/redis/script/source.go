package script

import (
	"crypto/sha1"
	"embed"
	"fmt"
	"strings"

	"github.com/weirproxy/weir/descriptors"
)

//go:embed lua/*.lua
var files embed.FS

// The parts of the script, each a file in lua, in the order of their use. EVALSHA makes all functions at each call, so
// those that only sliding windows need are inside one function, which runs when a sliding window is used. The constants
// are outside all functions, as a function costs more with each local around it that it uses.
var (
	constants      = []string{"constants"}
	checks         = []string{"key", "limits"}
	slidingWindows = []string{"chunk", "slow_path", "sliding_window"}
	decisions      = []string{"trim", "rulings", "call"}
)

// body returns all parts, which define script(); script() returns a function of keys and arguments.
func body() string {
	var b strings.Builder
	write := func(before string, parts []string, after string) {
		b.WriteString(before)
		for _, part := range parts {
			text, _ := files.ReadFile("lua/" + part + ".lua") // a missing one fails every test of the script
			b.Write(text)
		}
		b.WriteString(after)
	}
	write("", constants, "local function script()\n")
	write("", checks, "")
	write("", algorithms, "")
	write(fmt.Sprintf("algorithms[%d] = lazily(function()\n", descriptors.SlidingWindow), slidingWindows, "return sliding_window\nend)\n")
	write("", decisions, "return run\nend\n")
	return b.String()
}

// Source returns the script for SCRIPT LOAD. Redis runs its text, and so makes all functions, at each call.
func Source() string { return body() + "return script()(KEYS, ARGV)\n" }

// libraryPrefix begins the names of weir's libraries of all versions.
const libraryPrefix = "weir_"

// Function returns the name of the library and of its function, which is equivalent to the script. The name has a hash
// of the content, so libraries of other versions have other names.
func Function() string {
	return fmt.Sprintf("%s%x", libraryPrefix, sha1.Sum([]byte(library(""))))[:len(libraryPrefix)+16]
}

// Library returns the script as a library, for FUNCTION LOAD. The first call makes its functions, since neither
// redis.call nor Lua's libraries can be used while Redis loads it. Later calls use them again.
func Library() string { return library(Function()) }

func library(name string) string {
	return "#!lua name=" + name + "\nlocal function make()\n" + body() + "return script()\nend\n" +
		"local run\nredis.register_function('" + name + "', function(keys, argv)\n" +
		"\trun = run or make()\n\treturn run(keys, argv)\nend)\n"
}
