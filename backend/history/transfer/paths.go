package transfer

import (
	"fmt"

	"github.com/weirproxy/weir/descriptors"
)

// maxPaths is how many paths that are not as weir stores them are remembered, to tell of each once.
const maxPaths = 1000

// paths reads the paths of rows as rules are counted by, and remembers what there is to tell.
type paths struct {
	known map[string]string // what is not as it is stored, and what it was read as
	told  []string          // a sentence for each of the first
	full  bool              // there were more than could be remembered
}

// stored returns the path that a row means. What cannot be read is kept as it stands.
func (p *paths) stored(text string) string {
	if path, is := p.known[text]; is {
		return path
	}
	path, err := descriptors.StoredPath(text)
	if err == nil && len(path) > maxName {
		err = fmt.Errorf("it has more than %d bytes as it is stored", maxName)
	}
	sentence := fmt.Sprintf("path %s is counted as %s, as weir stores it", descriptors.Quoted(text), descriptors.Quoted(path))
	switch {
	case err != nil:
		path, sentence = text, fmt.Sprintf("path %s is counted as it stands: %v", descriptors.Quoted(text), err)
	case path == text:
		return text
	}
	if len(p.known) >= maxPaths {
		p.full = true
		return path
	}
	if p.known == nil {
		p.known = make(map[string]string)
	}
	p.known[text] = path
	if len(p.told) < maxTold {
		p.told = append(p.told, sentence)
	}
	return path
}

// warnings returns a sentence for each of the first paths that are not as they are stored, and how many more there are.
func (p *paths) warnings() []string {
	more := len(p.known) - len(p.told)
	switch {
	case p.full:
		return append(p.told, fmt.Sprintf("and %d more paths at least", more))
	case more > 0:
		return append(p.told, fmt.Sprintf("and %d more paths", more))
	}
	return p.told
}
