package query

import (
	"fmt"
	"slices"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// MaxUnreadable is how many series that cannot be read an answer names; further ones are only counted.
const MaxUnreadable = 20

// Unreadable are the series that an answer leaves out: a sum of what can be read would look like one of all.
type Unreadable struct {
	Most  int // how many are named at most
	Count int

	named []string // the first that were met
}

// Add notes a series that is left out, as its Err says.
func (u *Unreadable) Add(s *history.Series) {
	if u.Count++; u.Count > u.Most {
		return
	}
	name := "A series whose name cannot be read"
	if !s.Unnamed {
		name = ReadableName(s.ID.Domain, s.ID.Path, s.ID.Value) + " " + s.ID.Outcome.String()
	}
	u.named = append(u.named, fmt.Sprintf("%s is left out, as it cannot be read: %v", name, s.Err))
}

// Warnings returns a sentence for each that is named, and one for all others.
func (u *Unreadable) Warnings() []string {
	warnings := slices.Sorted(slices.Values(u.named))
	if more := u.Count - len(u.named); more > 0 {
		warnings = append(warnings, fmt.Sprintf("%d more series are left out, as they cannot be read: weir history verify "+
			"names them.", more))
	}
	return warnings
}

// ReadableName returns a series' name, but for its outcome, as people are shown it.
func ReadableName(domain, path, value string) string {
	name := domain + " " + descriptors.ReadablePath(path)
	if value != "" {
		name += " value " + descriptors.ReadablePath(value)
	}
	return name
}
