package terminal

import (
	"io"
	"os"
)

// Paint colours text for a terminal. Where it is off, as its zero value is, text stays as it is.
type Paint struct{ On bool }

// PaintFor returns a Paint that is on if w is a terminal whose user has not asked for plain text.
func PaintFor(w io.Writer) Paint { return Paint{On: Is(w) && os.Getenv("NO_COLOR") == ""} }

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
