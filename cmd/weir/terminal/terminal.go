// Package terminal has the output of commands: numbers, colours, JSON, progress and exit codes.
package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// Output has the standard streams of a command, and the time zone in which it shows times.
type Output struct {
	In       io.Reader // for a file named -
	Out, Err io.Writer
	Zone     *time.Location
}

// SetZone sets the time zone by the value of --tz, unless that is "".
func (o *Output) SetZone(name string) (err error) {
	if name == "" {
		return nil
	}
	if o.Zone, err = time.LoadLocation(name); err != nil {
		return fmt.Errorf("--tz %q is not a time zone, such as Europe/Berlin", name)
	}
	return nil
}

// IsTerminal reports whether w is a terminal that understands control sequences.
func IsTerminal(w io.Writer) bool {
	f, isFile := w.(*os.File)
	return isFile && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// Width returns the number of columns of w, or 80 if w is not a terminal.
func Width(w io.Writer) int {
	if f, isFile := w.(*os.File); isFile {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}

// Paint colours text for a terminal. If On is false, it does not change the text.
type Paint struct{ On bool }

// PaintFor returns a Paint that is on if w is a terminal and the user has not set NO_COLOR.
func PaintFor(w io.Writer) Paint { return Paint{On: IsTerminal(w) && os.Getenv("NO_COLOR") == ""} }

// Green returns s in green.
func (p Paint) Green(s string) string { return p.wrap("32", s) }

// Red returns s in red.
func (p Paint) Red(s string) string { return p.wrap("31", s) }

// Yellow returns s in yellow.
func (p Paint) Yellow(s string) string { return p.wrap("33", s) }

// Dim returns s in a fainter colour.
func (p Paint) Dim(s string) string { return p.wrap("2", s) }

func (p Paint) wrap(colour, s string) string {
	if !p.On {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

// WriteJSON writes a value as a line of JSON. It does not escape <, > and &, but what [EscapeInvisible] escapes.
func WriteJSON(w io.Writer, value any) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	if err == nil {
		_, err = w.Write(EscapeInvisible(line.Bytes()))
	}
	if err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// Exit is an error that the command has reported already: the process ends with this exit code and prints nothing more.
type Exit int

// The exit codes except 0. The help of a command says when it ends with ExitNo: for example, a call is over a limit.
const (
	ExitNo     Exit = 1 // the answer is no
	ExitFailed Exit = 2 // a flag was wrong, or something failed

	ExitNothing Exit = 3 // there was nothing to show
)

// EmptyError is an error message, not reported yet, whose exit code is ExitNothing.
type EmptyError string

// Error returns the message.
func (e EmptyError) Error() string { return string(e) }

// Error names the code. It is for logs, because the command has reported the reason.
func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// ExitCode returns the exit code of an error, 0 for nil, and whether the error was reported already. An error that is
// neither an Exit nor an EmptyError has the code 2.
func ExitCode(err error) (code int, reported bool) {
	if err == nil {
		return 0, true
	}
	exit := ExitFailed
	var empty EmptyError
	if reported = errors.As(err, &exit); !reported && errors.As(err, &empty) {
		exit = ExitNothing
	}
	return int(exit), reported
}
