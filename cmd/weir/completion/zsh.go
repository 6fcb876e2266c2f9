package completion

import "strings"

// zsh writes a script that is both a function to autoload and one to source.
func zsh(name string, all []command) string {
	var s script
	s.line("#compdef %s", name)
	s.line("# Completes %s in zsh: source <(%[1]s completion zsh)", name)
	s.line("_%s() {", name)
	s.line("  local command= word flag=${words[CURRENT-1]} i")
	s.line("  local -a choices")
	s.line("  if [[ ${words[CURRENT]} == --*=* ]]; then flag=${words[CURRENT]%%%%=*}; compset -P '*='; fi")
	s.line("  for ((i = 2; i < CURRENT; i++)); do")
	s.line("    word=${words[i]}")
	s.walk(all)
	s.line("  done")
	s.line("  case \"$command:$flag\" in")
	s.cases(all, func(v values) string { return zshValues(v) + "; return" })
	s.line("  esac")
	s.line("  case \"$command\" in")
	for _, c := range all {
		s.line("    %s)", quote(c.path))
		s.line("      if [[ ${words[CURRENT]} == -* ]]; then")
		var flags []word
		for _, f := range c.flags {
			flags = append(flags, word{"--" + f.text, f.help})
		}
		s.line("        %s", zshWords("flag", flags))
		s.line("      else")
		if len(c.subs) > 0 {
			s.line("        %s", zshWords("command", c.subs))
		} else {
			s.line("        %s", zshValues(c.takes))
		}
		s.line("      fi ;;")
	}
	s.line("  esac")
	s.line("}")
	s.line("if [[ $funcstack[1] == _%s ]]; then _%[1]s; else compdef _%[1]s %[1]s; fi", name)
	return s.String()
}

// zshWords returns what offers words with what they mean.
func zshWords(tag string, words []word) string {
	var choices []string
	for _, w := range words {
		choices = append(choices, quote(strings.ReplaceAll(w.text, ":", `\:`)+":"+w.help))
	}
	return "choices=(" + strings.Join(choices, " ") + "); _describe " + tag + " choices"
}

// zshValues returns what completes to values.
func zshValues(v values) string {
	switch {
	case len(v.enum) > 0:
		return "compadd -- " + strings.Join(v.enum, " ")
	case v.files:
		return "_files"
	case v.dirs:
		return "_files -/"
	}
	return ":"
}
