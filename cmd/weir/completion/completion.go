// Package completion is weir completion, which prints a script that lets a shell complete weir's commands, flags, their
// values and files. The scripts are made of kong's model of the command line, so that they know all that it has.
package completion

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// Command prints a script for one shell.
type Command struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help returns what weir completion --help shows below the first sentence.
func (*Command) Help() string {
	return `In this shell only, and for every shell that begins later:

    source <(weir completion bash)          weir completion bash > /etc/bash_completion.d/weir
    source <(weir completion zsh)           weir completion zsh  > "${fpath[1]}/_weir"
    weir completion fish | source           weir completion fish > ~/.config/fish/completions/weir.fish

zsh completes once its startup file has: autoload -U compinit; compinit`
}

// Run prints the script.
func (c *Command) Run(k *kong.Kong, out terminal.Output) error {
	_, err := io.WriteString(out.Out, Script(k.Model.Node, c.Shell))
	return err
}

// Script returns the script for a shell: bash, zsh or fish.
func Script(root *kong.Node, shell string) string {
	all := describe(root, "")
	switch shell {
	case "bash":
		return bash(root.Name, all)
	case "zsh":
		return zsh(root.Name, all)
	default:
		return fish(root.Name, all)
	}
}

// command is one command, or the program itself.
type command struct {
	path  string // counters get; "" is the program
	subs  []word
	flags []flag
	takes values // of what stands without a flag
}

// word is what can be completed to, and what it means.
type word struct{ text, help string }

type flag struct {
	word
	short string // one letter; "" for none
	takes values
}

// values are what can stand behind a flag.
type values struct {
	some  bool // anything at all
	enum  []string
	files bool
	dirs  bool // directories only
}

// describe returns a command and all below it.
func describe(n *kong.Node, path string) []command {
	c := command{path: path}
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			var short string
			if f.Short != 0 {
				short = string(f.Short)
			}
			c.flags = append(c.flags, flag{word{f.Name, sentence(f.Help)}, short, valuesOf(f.Value, f.PlaceHolder)})
		}
	}
	for _, p := range n.Positional {
		c.takes = valuesOf(p, p.Tag.PlaceHolder)
	}
	all := []command{c}
	for _, child := range n.Children {
		if child.Type != kong.CommandNode || child.Hidden {
			continue
		}
		all[0].subs = append(all[0].subs, word{child.Name, sentence(child.Help)})
		all = append(all, describe(child, strings.TrimSpace(path+" "+child.Name))...)
	}
	return all
}

// valuesOf returns what a value takes: files where its placeholder says FILE, directories where it says DIR.
func valuesOf(v *kong.Value, placeholder string) values {
	var enum []string
	if v.Enum != "" {
		enum = slices.DeleteFunc(v.EnumSlice(), func(word string) bool { return word == "" })
	}
	files := strings.Contains(placeholder, "FILE")
	return values{some: !v.IsBool(), enum: enum, files: files, dirs: !files && strings.Contains(placeholder, "DIR")}
}

// sentence returns the first sentence of a help text, without its end.
func sentence(help string) string {
	help, _, _ = strings.Cut(help, ". ")
	return strings.TrimSuffix(help, ".")
}

// script is a script that is being written.
type script struct{ strings.Builder }

func (s *script) line(format string, args ...any) { fmt.Fprintf(&s.Builder, format+"\n", args...) }

// cases writes one branch of a case for each name of a flag that takes values.
func (s *script) cases(all []command, branch func(values) string) {
	for _, c := range all {
		for _, f := range c.flags {
			if !f.takes.some {
				continue
			}
			patterns := quote(c.path + ":--" + f.text)
			if f.short != "" {
				patterns += "|" + quote(c.path+":-"+f.short)
			}
			s.line("    %s) %s ;;", patterns, branch(f.takes))
		}
	}
}

// walk writes, for bash and zsh, how the words before the cursor lead to a command. A flag's value is no command, and
// weir help takes the commands that weir takes.
func (s *script) walk(all []command) {
	s.line("    case \"$command:$word\" in")
	s.cases(all, func(values) string { return "((i++))" })
	for _, c := range all {
		for _, sub := range c.subs {
			next := strings.TrimSpace(c.path + " " + sub.text)
			if next == "help" {
				next = ""
			}
			s.line("    %s) command=%s ;;", quote(c.path+":"+sub.text), quote(next))
		}
	}
	s.line("    esac")
}

// quote quotes a text for bash and zsh.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
