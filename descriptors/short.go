package descriptors

import (
	"strings"
	"unicode/utf8"
)

// ellipsis ends a text that is cut.
const ellipsis = "…"

// AppendShort appends what String returns, cut between two runes to maxLength bytes, at least 3, an ellipsis of three
// included. It allocates only to grow dst, and reads no more of d than it writes.
func (d Descriptor) AppendShort(dst []byte, maxLength int) []byte {
	begin := len(dst)
	for i := range d {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendPlainly(dst, d[i].Key, begin+maxLength)
		dst = append(dst, '=')
		dst = appendPlainly(dst, d[i].Value, begin+maxLength)
		if len(dst)-begin > maxLength {
			return cut(dst, begin, maxLength)
		}
	}
	return dst
}

// AppendCut appends a text, cut as AppendShort cuts one.
func AppendCut(dst, text []byte, maxLength int) []byte {
	begin := len(dst)
	if dst = append(dst, text[:min(len(text), maxLength+1)]...); len(dst)-begin > maxLength {
		return cut(dst, begin, maxLength)
	}
	return dst
}

// cut cuts what dst holds from begin on to maxLength bytes, the ellipsis among them.
func cut(dst []byte, begin, maxLength int) []byte {
	return append(dst[:begin+runeBoundary(dst[begin:], maxLength-len(ellipsis))], ellipsis...)
}

// appendPlainly appends a key or a value with its commas and backslashes escaped, and stops beyond a length of dst.
func appendPlainly(dst []byte, s string, maxLength int) []byte {
	if strings.IndexByte(s, ',') < 0 && strings.IndexByte(s, '\\') < 0 {
		return append(dst, s[:min(len(s), max(0, maxLength+1-len(dst)))]...)
	}
	for i := 0; i < len(s) && len(dst) <= maxLength; i++ {
		if s[i] == ',' || s[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, s[i])
	}
	return dst
}

// runeBoundary returns the last index up to at that begins a rune.
func runeBoundary(text []byte, at int) int {
	for back := range utf8.UTFMax {
		if at-back <= 0 || utf8.RuneStart(text[at-back]) {
			return max(0, at-back)
		}
	}
	return at // it is not UTF-8
}
