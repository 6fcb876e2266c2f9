package terminal

import (
	"fmt"
	"regexp"
	"unicode/utf8"
)

// EscapeInvisible escapes the control characters that JSON allows in strings, and the marks of text direction, because
// of which a terminal would show the text after them in another order.
func EscapeInvisible(json []byte) []byte {
	return invisible.ReplaceAllFunc(json, func(c []byte) []byte {
		r, _ := utf8.DecodeRune(c)
		return fmt.Appendf(nil, `\u%04x`, r)
	})
}

var invisible = regexp.MustCompile("[\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

// FormatSeconds formats seconds as 41s, 9m 12s, 3h 5m or 2d 4h.
func FormatSeconds(seconds int64) string {
	parts := []struct {
		length int64
		letter string
	}{{86400, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}}
	for i, p := range parts[:3] {
		if seconds < p.length {
			continue
		}
		next := parts[i+1]
		if rest := seconds % p.length / next.length; rest > 0 {
			return fmt.Sprintf("%d%s %d%s", seconds/p.length, p.letter, rest, next.letter)
		}
		return fmt.Sprintf("%d%s", seconds/p.length, p.letter)
	}
	return fmt.Sprintf("%ds", seconds)
}

// Thousands formats 1234567 as 1,234,567.
func Thousands(n uint64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Count formats a number with a noun: 1 hit, 2,000 hits. n must not be below 0.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Thousands(uint64(n)) + " " + noun + "s"
}
