package limit

import "errors"

// Outcome is how a request ended, for the statistics.
type Outcome uint8

// The outcomes of a request.
const (
	OK Outcome = iota
	OverLimit
	Invalid     // the request itself is wrong
	Unavailable // no verdict could be given
	Shadowed    // over a limit, and let through as everything is
	Outcomes    = int(Shadowed) + 1
)

// Outcome returns how the call ended, given what Decide returned for it.
func (c *Call) Outcome(err error) Outcome {
	switch {
	case errors.Is(err, ErrNoDomain), errors.Is(err, ErrNoDescriptors), errors.Is(err, ErrTooMany):
		return Invalid
	case err != nil:
		return Unavailable
	case c.Over:
		return OverLimit
	case c.Shadowed:
		return Shadowed
	}
	return OK
}

// String returns the outcome's name in metrics.
func (o Outcome) String() string {
	return [Outcomes]string{"ok", "over_limit", "invalid", "unavailable", "shadowed"}[o]
}
