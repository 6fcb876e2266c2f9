package history

import (
	"fmt"

	"github.com/weirproxy/weir/descriptors"
)

// Unreadable counts the damaged series that an answer leaves out, as a sum of their readable parts would look complete.
type Unreadable struct {
	Count int
	first string // sentence about the first one
}

// Add counts a series that is left out because of its Err.
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

// Warnings returns a sentence about the first series and the number of all, or nothing if there are none.
func (u *Unreadable) Warnings() []string {
	switch u.Count {
	case 0:
		return nil
	case 1:
		return []string{u.first}
	}
	return []string{fmt.Sprintf("%s; %d are left out in all (weir history verify names what is damaged)", u.first, u.Count)}
}

// ReadableName returns a series' name for people, without its outcome.
func ReadableName(domain, path, value string) string {
	name := domain + " " + descriptors.ReadablePath(path)
	if value != "" {
		name += " value " + descriptors.ReadablePath(value)
	}
	return name
}
