package completion

import (
	"cmp"
	"strings"
)

// fish writes a script that asks one function where on the command line it is, and else only declares.
func fish(name string, all []command) string {
	var s script
	s.line("# Completes %s in fish: %[1]s completion fish | source", name)
	s.line("function __%s_at", name)
	s.line("  set -l command ''")
	s.line("  set -l skip 0")
	s.line("  for word in (commandline -opc)[2..-1]")
	s.line("    if test $skip -eq 1; set skip 0; continue; end")
	s.line("    switch \"$command:$word\"")
	for _, c := range all {
		for _, f := range c.flags {
			if f.takes.some {
				names := fishQuote(c.path + ":--" + f.text)
				if f.short != "" {
					names += " " + fishQuote(c.path+":-"+f.short)
				}
				s.line("      case %s; set skip 1", names)
			}
		}
		for _, sub := range c.subs {
			next := strings.TrimSpace(c.path + " " + sub.text)
			if next == "help" {
				next = ""
			}
			s.line("      case %s; set command %s", fishQuote(c.path+":"+sub.text), fishQuote(next))
		}
	}
	s.line("    end")
	s.line("  end")
	s.line("  test \"$command\" = \"$argv[1]\"")
	s.line("end")
	s.line("complete -c %s -e", name)
	s.line("complete -c %s -f", name)
	for _, c := range all {
		at := "complete -c " + name + " -n " + fishQuote("__"+name+"_at "+fishQuote(c.path))
		for _, sub := range c.subs {
			s.line("%s -a %s -d %s", at, fishQuote(sub.text), fishQuote(sub.help))
		}
		if len(c.subs) == 0 {
			if takes := fishValues(c.takes); takes != "" {
				s.line("%s%s", at, takes)
			}
		}
		for _, f := range c.flags {
			line := at + " -l " + f.text
			if f.short != "" {
				line += " -s " + f.short
			}
			if f.takes.some {
				line += " -r" + cmp.Or(fishValues(f.takes), " -f")
			}
			s.line("%s -d %s", line, fishQuote(f.help))
		}
	}
	return s.String()
}

// fishValues returns the options that complete to values.
func fishValues(v values) string {
	switch {
	case len(v.enum) > 0:
		return " -f -a " + fishQuote(strings.Join(v.enum, " "))
	case v.files:
		return " -F"
	case v.dirs:
		return " -f -a " + fishQuote("(__fish_complete_directories)")
	}
	return ""
}

// fishQuote quotes a text for fish.
func fishQuote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}
