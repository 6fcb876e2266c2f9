// Package terminal shows text to people: where a command prints, what that can show, and how numbers are written.
package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// Output is where a command prints, and the time zone that it shows times in.
type Output struct {
	Out, Err io.Writer
	Zone     *time.Location
}

// Is reports whether w is a terminal that understands control sequences.
func Is(w io.Writer) bool {
	f, isFile := w.(*os.File)
	if !isFile || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
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

// Rewrite writes a line over the last one that it wrote. One that is too long is cut, not wrapped, so that it can be
// overwritten.
func Rewrite(w io.Writer, text string) { fmt.Fprintf(w, "\r\x1b[?7l%s\x1b[K\x1b[?7h", text) }

// Clear clears the line that Rewrite wrote.
func Clear(w io.Writer) { fmt.Fprint(w, "\r\x1b[K") }

// WriteJSON writes a value as a line of JSON, with <, > and & as they are.
func WriteJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}
