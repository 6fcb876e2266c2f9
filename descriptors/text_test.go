package descriptors

import "testing"

func TestPrintableKeepsTextInItsLine(t *testing.T) {
	const from = "a\tb\r\n\x1b[2J\u007f\u0085\u009b\u202e\u2066\u2069\u200e\u200f\u061c\u202a é\xff"
	if got, want := Printable(from), "a b���[2J���������� é�"; got != want {
		t.Errorf("Printable(%q) = %q, want %q: each of these could break a line or a table, or turn its text", from, got, want)
	}
}
