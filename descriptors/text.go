package descriptors

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

const (
	// maxShown is how many bytes of a text from outside a message repeats.
	maxShown = 120
	// maxListed is how many names, or children of one level, a message lists.
	maxListed = 10
)

// Shown returns a text from outside as one line of a terminal or a log can hold it: printable, and cut to 120 bytes.
func Shown(s string) string { return Printable(short(s)) }

// Quoted returns the same between quotes, as Go writes a string.
func Quoted(s string) string { return strconv.Quote(short(s)) }

// Listed returns up to ten names of any number, each as [Shown] has it: shop, bank and 40 more.
func Listed(names []string) string {
	some := make([]string, min(len(names), maxListed))
	for i := range some {
		some[i] = Shown(names[i])
	}
	list := strings.Join(some, ", ")
	if more := len(names) - len(some); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// Printable replaces what could break the line or move the cursor of a terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// HeaderName returns the name of a limit as answers hold it: Envoy writes it as it is into a header, between quotes.
// That takes printable ASCII without " and \ (RFC 8941, section 3.3.3), so each other byte is percent-escaped.
func HeaderName(name string) string {
	var escaped []byte
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			escaped = fmt.Appendf(escaped, "%%%02X", c)
		} else {
			escaped = append(escaped, c)
		}
	}
	return string(escaped)
}

// short cuts a text from outside to what a message can repeat.
func short(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:maxShown], ""), len(s))
}
