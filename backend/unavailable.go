package backend

import "errors"

// Reason is why a store gave a check no answer.
type Reason uint8

const (
	// Late means that no answer came before the caller's deadline.
	Late Reason = iota + 1
	// Down means that nothing was sent, because the server does not answer, or is too slow for this caller.
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

// UnavailableError is the Err of a decision that a store did not make. If the reason is Down or Busy, the check was not
// counted; with other reasons it may have been.
type UnavailableError struct {
	Reason Reason
	Err    error
}

// Error returns the text of Err.
func (e *UnavailableError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *UnavailableError) Unwrap() error { return e.Err }

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
