package topology

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// The largest sizes that a reply may announce, as go-redis allocates all of it at once, to any depth. The longest
// replies are the history's, with some megabytes. maxElements bounds the elements still to come, plus four for each
// list.
const maxLine, maxText, maxElements = 64 << 10, 16 << 20, 1 << 18

// errDamaged is the error of a connection whose other side does not speak the Redis protocol.
var errDamaged = errors.New("the server's reply is damaged; closing the connection")

// replyScanner scans replies in RESP2 or RESP3, and finds those that go-redis must not read. The zero value is ready.
type replyScanner struct {
	kind     byte // first byte of the line
	line     int  // bytes of the line so far, 0 between lines
	number   int  // the size that the line announces, -2 for nil
	text     int  // bytes of a string still to come, with the two that end it
	elements int  // elements of this reply still to come
	lists    int  // lists in this reply so far
}

// scan checks the next bytes. After an error it must not be called again.
func (r *replyScanner) scan(p []byte) error {
	for len(p) > 0 {
		if n := min(r.text, len(p)); n > 0 {
			p, r.text = p[n:], r.text-n
			continue
		}
		if r.line == 0 {
			r.kind, r.number = p[0], 0
			if r.elements--; r.elements < 0 { // the line begins a reply
				r.elements, r.lists = 0, 0
			}
		}
		piece, rest, whole := bytes.Cut(p, []byte{'\n'})
		for _, c := range piece[:min(len(piece), 32)] {
			if c == '-' || r.number < 0 {
				r.number = -2
			} else if '0' <= c && c <= '9' && r.number <= maxText {
				r.number = 10*r.number + int(c-'0')
			}
		}
		p, r.line = rest, r.line+len(piece)
		if strings.IndexByte("+-:_,#($=!*~>%|", r.kind) < 0 || r.line > maxLine {
			return fmt.Errorf("%w: it has a line of %d bytes that begins with %q", errDamaged, r.line, r.kind)
		}
		if whole {
			n := max(r.number, 0)
			switch r.line = 0; r.kind {
			case '$', '=', '!':
				r.text = r.number + 2
			case '|':
				r.elements++ // the element with these attributes
				fallthrough
			case '%':
				n *= 2
				fallthrough
			case '*', '~', '>':
				r.elements, r.lists = r.elements+n, r.lists+1
			}
		}
		if r.text > maxText || r.elements+4*r.lists > maxElements {
			return fmt.Errorf("%w: it announces %d bytes, or %d elements in %d lists", errDamaged, r.text, r.elements, r.lists)
		}
	}
	return nil
}
