// Package terminal is how commands answer people: in text, numbers and colours, and with exit codes.
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

// Output is where a command prints, what it reads where a dash stands for a file, and the time zone that it shows times in.
type Output struct {
	In       io.Reader
	Out, Err io.Writer
	Zone     *time.Location
}

// SetZone shows times in the zone that a --tz names, unless it is "".
func (o *Output) SetZone(name string) (err error) {
	if name == "" {
		return nil
	}
	if o.Zone, err = time.LoadLocation(name); err != nil {
		return fmt.Errorf("--tz %q is not a time zone, such as Europe/Berlin", name)
	}
	return nil
}

// Is reports whether w is a terminal that understands control sequences.
func IsTerminal(w io.Writer) bool {
	f, isFile := w.(*os.File)
	return isFile && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// Width returns how many columns w has; 80 if it is no terminal.
func Width(w io.Writer) int {
	if f, isFile := w.(*os.File); isFile {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}

// Paint colours text for a terminal. Where it is off, as its zero value is, text stays as it is.
type Paint struct{ On bool }

// PaintFor returns a Paint that is on if w is a terminal whose user has not asked for plain text.
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

// WriteJSON writes a value as a line of JSON, with <, > and & as they are, and [EscapeInvisible].
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

// Exit is an error that the user has been told already: the process ends with this exit code and prints nothing more.
type Exit int

// What a command ends with, if not with 0. What No means is in its help: a call over a limit, say.
const (
	ExitNo     Exit = 1 // the answer is no
	ExitFailed Exit = 2 // a flag was wrong, or something failed

	ExitNothing Exit = 3 // there is nothing of what was asked for
)

// Empty is an error that is still to be told, and that ends the process with [Nothing].
type EmptyError string

// Error returns the sentence.
func (e EmptyError) Error() string { return string(e) }

// Error names the code, for logs; people have been told the reason.
func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// ExitCode returns the code that a process ends with after an error: 2 for one that is no Exit, 3 for an [Empty] one, which both
// are still to be told.
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
