package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
)

// paint colours text for a terminal; when it is off, text stays as it is.
type paint struct{ on bool }

// newPaint is on if w is a terminal whose user has not asked for plain text.
func newPaint(w io.Writer) paint { return paint{on: isTerminal(w) && os.Getenv("NO_COLOR") == ""} }

func (p paint) green(s string) string  { return p.wrap("32", s) }
func (p paint) red(s string) string    { return p.wrap("31", s) }
func (p paint) yellow(s string) string { return p.wrap("33", s) }
func (p paint) dim(s string) string    { return p.wrap("2", s) }

func (p paint) wrap(colour, s string) string {
	if !p.on {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

// code shows a verdict in four columns.
func (p paint) code(code string) string {
	switch code {
	case "OK":
		return p.green("OK  ")
	case codeOver:
		return p.red("OVER")
	}
	return p.yellow(code)
}

// isTerminal says whether w is a terminal that understands control sequences.
func isTerminal(w io.Writer) bool {
	f, isFile := w.(*os.File)
	if !isFile || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// printable replaces what a terminal could take for a command, and line ends: a service's words are shown, not obeyed.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// milliseconds writes a latency with three digits or so: 0.42 ms, 12.3 ms, 250 ms.
func milliseconds(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms < 10:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}
