package completion

import "strings"

// bash writes a script for bash 3.2 and later, also without the package bash-completion.
func bash(name string, all []command) string {
	var s script
	s.line("# Completes %s in bash: source <(%[1]s completion bash)", name)
	s.line("_%s() {", name)
	s.line("  local cur=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD-1]} command= word i words= IFS=$' \\t\\n'")
	s.line("  COMPREPLY=()")
	s.line("  # bash parts --flag=value into three words.")
	s.line("  if [[ $cur == '=' ]]; then cur=; elif [[ $flag == '=' ]]; then flag=${COMP_WORDS[COMP_CWORD-2]}; fi")
	s.line("  for ((i = 1; i < COMP_CWORD; i++)); do")
	s.line("    word=${COMP_WORDS[i]}")
	s.line("    if [[ ${COMP_WORDS[i+1]} == '=' ]]; then ((i += 2)); continue; fi")
	s.walk(all)
	s.line("  done")
	s.line("  case \"$command:$flag\" in")
	s.cases(all, func(v values) string { return bashValues(v) + "; return" })
	s.line("  esac")
	s.line("  case \"$command\" in")
	for _, c := range all {
		var flags, words []string
		for _, f := range c.flags {
			flags = append(flags, "--"+f.text)
		}
		for _, sub := range c.subs {
			words = append(words, sub.text)
		}
		if len(words) > 0 {
			c.takes = values{enum: words}
		}
		s.line("    %s) if [[ $cur == -* ]]; then words=%s; else %s; return; fi ;;", quote(c.path), quote(strings.Join(flags, " ")),
			bashValues(c.takes))
	}
	s.line("  esac")
	s.line("  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))")
	s.line("}")
	s.line("complete -F _%s %[1]s", name)
	return s.String()
}

// bashValues returns what completes to values. Names of files may hold spaces.
func bashValues(v values) string {
	switch {
	case len(v.enum) > 0:
		return "COMPREPLY=($(compgen -W " + quote(strings.Join(v.enum, " ")) + ` -- "$cur"))`
	case v.files:
		return `compopt -o filenames 2>/dev/null; IFS=$'\n'; COMPREPLY=($(compgen -f -- "$cur"))`
	case v.dirs:
		return `compopt -o filenames 2>/dev/null; IFS=$'\n'; COMPREPLY=($(compgen -d -- "$cur"))`
	}
	return ":"
}
