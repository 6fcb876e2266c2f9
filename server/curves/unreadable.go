package curves

import (
	"fmt"
	"slices"

	"github.com/weirproxy/weir/backend/history"
)

// maxUnreadable is how many series that cannot be read an answer names; further ones are only counted.
const maxUnreadable = 20

// unreadable collects the series that an answer leaves out, as some of what was asked for of them cannot be read: a sum
// of the rest would look like one of all.
type unreadable struct {
	count    int
	warnings []string // of the first that were met
}

// leftOut reports whether a series is to be left out, and notes it.
func (u *unreadable) leftOut(s *history.Series) bool {
	if s.Err == nil {
		return false
	}
	if u.count++; u.count > maxUnreadable {
		return true
	}
	name := "A series whose name cannot be read"
	if !s.Unnamed {
		name = ReadableName(s.ID.Domain, s.ID.Path, s.ID.Value) + " " + s.ID.Outcome.String()
	}
	u.warnings = append(u.warnings, fmt.Sprintf("%s is left out, as it cannot be read: %v", name, s.Err))
	return true
}

// appendTo appends the warnings, in their order.
func (u *unreadable) appendTo(warnings []string) []string {
	slices.Sort(u.warnings)
	warnings = append(warnings, u.warnings...)
	if more := u.count - len(u.warnings); more > 0 {
		warnings = append(warnings, fmt.Sprintf("%d more series are left out, as they cannot be read: weir history verify "+
			"names them.", more))
	}
	return warnings
}
