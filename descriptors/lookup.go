package descriptors

import (
	"fmt"
	"strings"
)

// MissingPath returns a sentence that no rule has a path, in a domain or, if that is "", in any. It names the rules whose
// paths contain the text: people know /pay, and not user/path=/pay.
func (c *Config) MissingPath(domain, path string) string {
	var near []string
	for _, r := range c.rules {
		readable := ReadablePath(r.Path)
		if (domain == "" || r.Domain == domain) && (Holds(readable, path) || Holds(r.Path, path)) {
			near = append(near, readable)
		}
	}
	of := ""
	if domain != "" {
		of = " of domain " + Shown(domain)
	}
	if len(near) == 0 {
		return fmt.Sprintf("No rule%s has the path %s; weir check DIR lists the rules.", of, Shown(path))
	}
	return fmt.Sprintf("No rule%s has the path %s; these hold it: %s.", of, Shown(path), Listed(near))
}

// Holds reports whether a name holds a text, whatever the case of its letters.
func Holds(name, text string) bool {
	return strings.Contains(strings.ToLower(name), strings.ToLower(text))
}
