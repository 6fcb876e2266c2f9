// Package completion is weir completion, which prints a script that lets a shell complete weir's command line. The script
// asks weir itself, at each key, what the words before it can become.
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
func (c *Command) Run(out terminal.Output) error {
	_, err := io.WriteString(out.Out, scripts[c.Shell])
	return err
}

// scripts ask for candidates, a line each, or for one of the words that stand for names of files.
var scripts = map[string]string{
	"bash": `# Completes weir in bash: source <(weir completion bash)
_weir() {
  local IFS=$'\n' word=${COMP_WORDS[COMP_CWORD]}
  [[ $word != '=' ]] || word=
  COMPREPLY=($("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  case ${COMPREPLY[0]} in
    ` + files + `) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$word")) ;;
    ` + folders + `) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$word")) ;;
  esac
}
complete -F _weir weir
`,
	"zsh": `#compdef weir
# Completes weir in zsh: source <(weir completion zsh)
_weir() {
  local -a choices=("${(@f)$(${words[1]} complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ ${words[CURRENT]} == --*=* ]]; then compset -P '*='; fi
  case ${choices[1]} in
    ` + files + `) _files ;;
    ` + folders + `) _files -/ ;;
    ?*) compadd -- $choices ;;
  esac
}
if [[ $funcstack[1] == _weir ]]; then _weir; else compdef _weir weir; fi
`,
	"fish": `# Completes weir in fish: weir completion fish | source
function __weir_complete
  set -l words (commandline -opc)
  set -l choices ($words[1] complete -- $words[2..-1] (commandline -ct) 2>/dev/null)
  switch "$choices[1]"
    case ` + files + `
      __fish_complete_path (commandline -ct)
    case ` + folders + `
      __fish_complete_directories (commandline -ct)
    case '*'
      set -l flag (string match -r -- '^--[^=]+=' (commandline -ct); or echo)
      printf '%s\n' $flag$choices
  end
end
complete -c weir -e
complete -c weir -f -a '(__weir_complete)'
`,
}

// What stands for all files, or all folders. No other candidate begins with a colon.
const (
	files   = ":files"
	folders = ":folders"
)

// Complete is the command that the scripts ask; it is hidden from people.
type Complete struct {
	Words []string `arg:"" optional:""`
}

// Run prints what the last of the words, which is being typed, can become.
func (c *Complete) Run(k *kong.Kong, out terminal.Output) error {
	if len(c.Words) == 0 {
		return nil
	}
	for _, candidate := range candidates(k.Model.Node, c.Words) {
		if _, err := fmt.Fprintln(out.Out, candidate); err != nil {
			return err
		}
	}
	return nil
}

// candidates returns what the last of the words can become, or files or folders alone.
func candidates(root *kong.Node, words []string) (all []string) {
	last := words[len(words)-1]
	node, flag := walk(root, words[:len(words)-1])
	if name, value, has := strings.Cut(last, "="); has && strings.HasPrefix(name, "--") {
		flag, last = flagOf(node, name), value
	}
	last = strings.TrimPrefix(last, "=")
	switch {
	case flag != nil:
		all = values(flag.Value, flag.PlaceHolder)
	case strings.HasPrefix(last, "-"):
		for _, f := range slices.Concat(node.AllFlags(true)...) {
			all = append(all, "--"+f.Name)
		}
	case len(node.Positional) > 0:
		p := node.Positional[len(node.Positional)-1]
		all = values(p, p.Tag.PlaceHolder)
	default:
		for _, child := range node.Children {
			if !child.Hidden {
				all = append(all, child.Name)
			}
		}
	}
	return slices.DeleteFunc(all, func(text string) bool { return !strings.HasPrefix(text, last) && text[0] != ':' })
}

// walk returns the command that words lead to, and the flag whose value comes after them, nil for none.
func walk(node *kong.Node, words []string) (*kong.Node, *kong.Flag) {
	var flag *kong.Flag
	for _, word := range words {
		child := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word })
		switch {
		case word == "=": // bash parts --flag=value into three words
		case flag != nil:
			flag = nil
		case strings.HasPrefix(word, "-"):
			flag = flagOf(node, word)
		case child >= 0:
			node = node.Children[child]
		}
	}
	return node, flag
}

// flagOf returns the flag of a name with its hyphens, if it takes a value.
func flagOf(node *kong.Node, name string) *kong.Flag {
	for _, f := range slices.Concat(node.AllFlags(true)...) {
		if (name == "--"+f.Name || name == "-"+string(f.Short)) && !f.IsBool() {
			return f
		}
	}
	return nil
}

// values returns what a value can be: files where its placeholder says FILE, folders where it says DIR.
func values(v *kong.Value, placeholder string) []string {
	switch {
	case v.Enum != "":
		return slices.DeleteFunc(v.EnumSlice(), func(text string) bool { return text == "" })
	case strings.Contains(placeholder, "FILE"):
		return []string{files}
	case strings.Contains(placeholder, "DIR"):
		return []string{folders}
	}
	return nil
}
