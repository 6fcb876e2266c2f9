package descriptors

import (
	"strings"
	"unicode/utf8"
)

// Short returns what String returns, cut as [Cut] cuts it. It reads little more of d than it returns.
func (d Descriptor) Short(most int) string {
	size := 0
	for i := range d {
		size += len(d[i].Key) + len(d[i].Value) + len("=,")
	}
	var b strings.Builder
	b.Grow(min(size, most+1))
	for i := 0; i < len(d) && b.Len() <= most; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		for _, part := range [...]string{d[i].Key, "=", d[i].Value} {
			b.WriteString(entryEscaper.Replace(part[:min(len(part), most+1)]))
		}
	}
	return Cut(b.String(), most)
}

// Cut returns a text, cut between two runes to at most most bytes if it is longer, an ellipsis of three included; most is
// at least 3.
func Cut(text string, most int) string {
	const ellipsis = "…"
	if len(text) <= most {
		return text
	}
	at := most - len(ellipsis)
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:at] + ellipsis
}
