package descriptors

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxShown bounds the bytes of a foreign text that a message repeats.
	maxShown = 120
	// maxListed bounds the names, or children of a level, that a message lists.
	maxListed = 10
)

// Abbreviate joins foreign texts for a line of a terminal or a log: printable, each cut to 120 bytes, at most ten:
// shop, bank and 40 more.
func Abbreviate(texts ...string) string {
	some := make([]string, min(len(texts), maxListed))
	for i := range some {
		some[i] = Printable(short(texts[i]))
	}
	list := strings.Join(some, ", ")
	if more := len(texts) - len(some); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// Quote returns a foreign text, cut to 120 bytes, as a Go string literal.
func Quote(s string) string { return strconv.Quote(short(s)) }

// Printable replaces characters that could break a line or a table, or move the cursor of a terminal: a tab by a space,
// others by U+FFFD.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case r == '\t':
			return ' '
		}
		return unicode.ReplacementChar
	}, s)
}

// HeaderName escapes the name of a limit for answers. Envoy writes it literally into a header, between quotes, which
// allows printable ASCII without " and \ (RFC 8941, section 3.3.3), so HeaderName percent-escapes each other byte.
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

// short cuts a foreign text to maxShown bytes.
func short(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:maxShown], ""), len(s))
}

// ellipsis ends a text that is cut.
const ellipsis = "…"

// AppendShort appends the result of String, cut between two runes to maxLength bytes, at least 3, including an ellipsis
// of 3 bytes. It allocates only to grow dst, and reads no more of d than it writes.
func (d Descriptor) AppendShort(dst []byte, maxLength int) []byte {
	begin := len(dst)
	for i := range d {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendEscaped(dst, d[i].Key, begin+maxLength)
		dst = append(dst, '=')
		dst = appendEscaped(dst, d[i].Value, begin+maxLength)
		if len(dst)-begin > maxLength {
			return cut(dst, begin, maxLength)
		}
	}
	return dst
}

// AppendCut appends a text, cut like the one of AppendShort.
func AppendCut(dst, text []byte, maxLength int) []byte {
	begin := len(dst)
	if dst = append(dst, text[:min(len(text), maxLength+1)]...); len(dst)-begin > maxLength {
		return cut(dst, begin, maxLength)
	}
	return dst
}

// cut cuts dst[begin:] to maxLength bytes, including an ellipsis.
func cut(dst []byte, begin, maxLength int) []byte {
	return append(dst[:begin+runeBoundary(dst[begin:], maxLength-len(ellipsis))], ellipsis...)
}

// appendEscaped appends a key or a value with a backslash before each comma and backslash. It stops once dst is longer
// than maxLength.
func appendEscaped(dst []byte, s string, maxLength int) []byte {
	s = s[:min(len(s), max(0, maxLength+1-len(dst)))]
	if strings.IndexByte(s, ',') < 0 && strings.IndexByte(s, '\\') < 0 {
		return append(dst, s...)
	}
	for i := 0; i < len(s) && len(dst) <= maxLength; i++ {
		if s[i] == ',' || s[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, s[i])
	}
	return dst
}

// runeBoundary returns the last index up to at at which a rune begins, 0 for none.
func runeBoundary(text []byte, at int) int {
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}
