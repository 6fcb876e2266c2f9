package descriptors

import (
	"strings"
	"unicode/utf8"
)

// ellipsis ends a text that is cut.
const ellipsis = "…"

// AppendShort appends what String returns, cut between two runes to at most most bytes, an ellipsis of three included; most
// is at least 3. It allocates only to grow dst, and reads no more of d than it writes.
func (d Descriptor) AppendShort(dst []byte, most int) []byte {
	begin := len(dst)
	for i := range d {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendPlainly(dst, d[i].Key, begin+most)
		dst = append(dst, '=')
		dst = appendPlainly(dst, d[i].Value, begin+most)
		if len(dst)-begin > most {
			return cut(dst, begin, most)
		}
	}
	return dst
}

// AppendCut appends a text, cut as AppendShort cuts one.
func AppendCut(dst, text []byte, most int) []byte {
	begin := len(dst)
	if dst = append(dst, text[:min(len(text), most+1)]...); len(dst)-begin > most {
		return cut(dst, begin, most)
	}
	return dst
}

// cut cuts what dst holds from begin on to at most so many bytes, the ellipsis among them.
func cut(dst []byte, begin, most int) []byte {
	return append(dst[:begin+lastWhole(dst[begin:], most-len(ellipsis))], ellipsis...)
}

// appendPlainly appends a key or a value with its commas and backslashes escaped, and stops beyond a length of dst.
func appendPlainly(dst []byte, s string, most int) []byte {
	if strings.IndexByte(s, ',') < 0 && strings.IndexByte(s, '\\') < 0 {
		return append(dst, s[:min(len(s), max(0, most+1-len(dst)))]...)
	}
	for i := 0; i < len(s) && len(dst) <= most; i++ {
		if s[i] == ',' || s[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, s[i])
	}
	return dst
}

// lastWhole returns the greatest length up to at which a text can be cut without cutting a rune.
func lastWhole(text []byte, at int) int {
	for back := range utf8.UTFMax {
		if at-back <= 0 || utf8.RuneStart(text[at-back]) {
			return max(0, at-back)
		}
	}
	return at // it is not UTF-8
}
