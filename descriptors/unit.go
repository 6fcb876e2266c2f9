package descriptors

import (
	"fmt"
	"strings"
	"time"
)

// Unit is the unit of time of a limit in a file. The numbers are those of Envoy's RateLimitUnit in requests, responses
// and xDS. The unit only appears in answers to Envoy; [Limit.Window] is enforced.
type Unit uint8

// The units of Envoy's RateLimitUnit. A month is 30 days and a year 365, as in Envoy's own header code.
const (
	Second Unit = iota + 1
	Minute
	Hour
	Day
	Month
	Year
	Week
)

var units = [...]struct {
	name   string
	length time.Duration
}{
	Second: {"second", time.Second},
	Minute: {"minute", time.Minute},
	Hour:   {"hour", time.Hour},
	Day:    {"day", 24 * time.Hour},
	Month:  {"month", 30 * 24 * time.Hour},
	Year:   {"year", 365 * 24 * time.Hour},
	Week:   {"week", 7 * 24 * time.Hour},
}

// UnitNames lists what [ParseUnit] accepts, shortest unit first, for error messages.
const UnitNames = "second, minute, hour, day, week, month, year"

// Units returns all units, shortest first.
func Units() []Unit { return []Unit{Second, Minute, Hour, Day, Week, Month, Year} }

// ParseUnit reads a unit's name, in any case.
func ParseUnit(name string) (Unit, error) {
	for u := Second; u <= Week; u++ {
		if strings.EqualFold(name, units[u].name) {
			return u, nil
		}
	}
	several := ""
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		several = "; how many of them is unit_multiplier"
	}
	return 0, fmt.Errorf("%s is not a unit: use one of %s%s", Quote(name), UnitNames, several)
}

// Known reports whether u is one of the seven units. Zero, Envoy's UNKNOWN, is not.
func (u Unit) Known() bool { return u >= Second && u <= Week }

// Duration returns the length of one unit, 0 for an unknown one.
func (u Unit) Duration() time.Duration {
	if !u.Known() {
		return 0
	}
	return units[u].length
}

// String returns the unit's name in files.
func (u Unit) String() string {
	if !u.Known() {
		return fmt.Sprintf("unit(%d)", uint8(u))
	}
	return units[u].name
}
