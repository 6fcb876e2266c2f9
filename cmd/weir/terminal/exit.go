package terminal

import (
	"errors"
	"fmt"
)

// Exit is an error that the user has been told already: the process ends with this exit code and prints nothing more.
type Exit int

// What a command ends with, if not with 0. What No means is in its help: a call over a limit, a history that is not
// exact.
const (
	No     Exit = 1 // the answer is no
	Failed Exit = 2 // a flag was wrong, or something failed
)

// Error names the code, for logs; people have been told the reason.
func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// ExitCode returns the code that a process ends with after an error: 0 for none, and 2 for one that is no Exit, which is
// still to be told.
func ExitCode(err error) (code int, told bool) {
	if err == nil {
		return 0, true
	}
	exit := Failed
	told = errors.As(err, &exit)
	return int(exit), told
}
