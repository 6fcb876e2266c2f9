package backend

import "errors"

// Reason is why a store gave a check no answer.
type Reason uint8

const (
	// Late means that the answer did not come before the caller had to leave.
	Late Reason = iota + 1
	// Down means that the server is known not to answer, or not in time for this caller, and was not asked.
	Down
	// Refused means that the server answered with an error: it is full, cannot save, or denies a right.
	Refused
	// Busy means that more checks wait for the server than it can answer in time.
	Busy
	// Reasons is the number of reasons, with the zero value, which means none.
	Reasons = int(Busy) + 1
)

// String returns the reason's name in metrics.
func (r Reason) String() string { return [Reasons]string{"none", "late", "down", "refused", "busy"}[r] }

// UnavailableError is the Err of a decision that a store did not make. If the reason is Down or Busy, the check was not counted;
// else that is unknown.
type UnavailableError struct {
	Reason Reason
	Err    error
}

// Error returns the text of Err.
func (a *UnavailableError) Error() string { return a.Err.Error() }

// Unwrap returns Err.
func (a *UnavailableError) Unwrap() error { return a.Err }

// ReasonOf returns the reason in a decision's Err: Late if the error has none, 0 if it is nil.
func ReasonOf(err error) Reason {
	if err == nil {
		return 0
	}
	if a := (*UnavailableError)(nil); errors.As(err, &a) {
		return a.Reason
	}
	return Late
}
