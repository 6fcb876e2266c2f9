package redistest

import (
	"bytes"
	"strconv"
	"strings"
)

// scanner finds the commands in what a client sends: arrays of bulk strings, of which the first is the command's name.
// Anything else makes it opaque, and it finds no more.
type scanner struct {
	opaque  bool
	line    []byte // the beginning of a header
	args    int    // arguments of the command that are still to come
	skip    int    // bytes of the current argument that are still to come, with its CRLF
	name    []byte
	naming  bool // the current argument is the name
	pending bool // the next argument is the name
}

// maxHeader is longer than any header: * or $ and a number.
const maxHeader = 32

// scan takes the next bytes and gives the names, in capitals, of the commands whose name ends in them.
func (s *scanner) scan(data []byte) []string {
	var commands []string
	for len(data) > 0 && !s.opaque {
		if s.skip == 0 {
			data = s.header(data)
			continue
		}
		n := min(s.skip, len(data))
		if s.naming {
			s.name = append(s.name, data[:n]...)
		}
		s.skip -= n
		data = data[n:]
		if s.skip == 0 && s.naming {
			commands = append(commands, strings.ToUpper(string(bytes.TrimSpace(s.name))))
			s.name, s.naming = s.name[:0], false
		}
	}
	return commands
}

// header takes a line, or its beginning, and gives what is left.
func (s *scanner) header(data []byte) []byte {
	end := bytes.IndexByte(data, '\n')
	if end < 0 {
		s.line = append(s.line, data...)
		s.opaque = len(s.line) > maxHeader
		return nil
	}
	line := strings.TrimSpace(string(append(s.line, data[:end]...)))
	s.line = s.line[:0]
	kind, digits := "", ""
	if line != "" {
		kind, digits = line[:1], line[1:]
	}
	n, err := strconv.Atoi(digits)
	switch {
	case err != nil || n < 0 || n == 0 && kind == "*":
		s.opaque = true
	case kind == "*" && s.args == 0:
		s.args, s.pending = n, true
	case kind == "$" && s.args > 0:
		s.args, s.skip = s.args-1, n+len("\r\n")
		s.naming, s.pending = s.pending, false
	default:
		s.opaque = true
	}
	return data[end+1:]
}
