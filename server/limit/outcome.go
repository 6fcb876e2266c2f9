package limit

import "errors"

// Outcome is how a request ended, for the statistics.
type Outcome uint8

// The outcomes of a request.
const (
	OK Outcome = iota
	OverLimit
	Invalid      // the request itself is wrong
	Unavailable  // no verdict could be given
	Shadowed     // over a limit, and let through as everything is
	Unconfigured // no verdict could be given, for want of a configuration
	Outcomes     = int(Unconfigured) + 1
)

// Outcome returns how the call ended, given what Decide returned for it.
func (c *Call) Outcome(err error) Outcome {
	switch {
	case err == nil && c.Over:
		return OverLimit
	case err == nil && c.Shadowed:
		return Shadowed
	case err == nil:
		return OK
	case errors.Is(err, ErrNoDomain), errors.Is(err, ErrNoDescriptors), errors.Is(err, ErrTooMany):
		return Invalid
	case errors.Is(err, ErrNoConfig), errors.Is(err, ErrBrokenDomain):
		return Unconfigured
	}
	return Unavailable
}

// String returns the outcome's name in metrics. Unconfigured is a kind of Unavailable there.
func (o Outcome) String() string {
	return [Outcomes]string{"ok", "over_limit", "invalid", "unavailable", "shadowed", "unavailable"}[o]
}
