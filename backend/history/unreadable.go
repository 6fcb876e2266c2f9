package history

import (
	"fmt"

	"github.com/weirproxy/weir/descriptors"
)

// Unreadable counts the damaged series that an answer leaves out: a sum of their readable parts would look complete.
type Unreadable struct {
	Count int
	first string // about the first
}

// Add notes a series that is left out, as its Err says.
func (u *Unreadable) Add(s *Series) {
	if u.Count++; u.Count > 1 {
		return
	}
	name := "A series whose name cannot be read"
	if !s.Unnamed {
		name = ReadableName(s.ID.Domain, s.ID.Path, s.ID.Value) + " " + s.ID.Outcome.String()
	}
	u.first = fmt.Sprintf("%s is left out, as it cannot be read: %v", name, s.Err)
}

// Warnings returns a sentence about the first, with how many there are, or nothing if there is none.
func (u *Unreadable) Warnings() []string {
	switch u.Count {
	case 0:
		return nil
	case 1:
		return []string{u.first}
	}
	return []string{fmt.Sprintf("%s; %d are left out in all (weir history verify names what is damaged)", u.first, u.Count)}
}

// ReadableName returns a series' name, but for its outcome, as people are shown it.
func ReadableName(domain, path, value string) string {
	name := domain + " " + descriptors.ReadablePath(path)
	if value != "" {
		name += " value " + descriptors.ReadablePath(value)
	}
	return name
}
