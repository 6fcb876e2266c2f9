// Package exit holds the exit codes of weir's commands.
package exit

import (
	"errors"
	"fmt"
)

// Code is an error that the user has been told already: the process ends with it and prints nothing more.
type Code int

// What a command ends with, if not with 0. What No means is in its help: a call over a limit, a history that is not
// exact.
const (
	No     Code = 1 // the answer is no
	Failed Code = 2 // a flag was wrong, or something failed
)

// Error names the code, for logs; people have been told the reason.
func (c Code) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// CodeOf returns the code that a process ends with after an error: 0 for none, and 2 for one that is no Code, which is
// still to be told.
func CodeOf(err error) (code int, told bool) {
	var c Code
	switch {
	case err == nil:
		return 0, true
	case errors.As(err, &c):
		return int(c), true
	}
	return int(Failed), false
}
