package terminal

import (
	"strings"
	"testing"
)

func TestSpanIsShort(t *testing.T) {
	for seconds, want := range map[int64]string{
		0: "0s", 1: "1s", 59: "59s", 60: "1m", 61: "1m 1s", 3599: "59m 59s", 3600: "1h", 3661: "1h 1m", 86400: "1d",
		90061: "1d 1h", 86459: "1d",
	} {
		if got := FormatSeconds(seconds); got != want {
			t.Errorf("Span(%d) = %q, want %q", seconds, got, want)
		}
	}
}

func TestControlCharactersInTextAreEscaped(t *testing.T) {
	const turned = "ann\u007f\u0085\u009b2J\u202egnp.exe\u2066\u2069\u200e\u200f\u061c\u202a é\u200b"
	var line strings.Builder
	if err := WriteJSON(&line, turned); err != nil {
		t.Fatal(err)
	}
	if want := `"ann\u007f\u0085\u009b2J\u202egnp.exe\u2066\u2069\u200e\u200f\u061c\u202a é` + "\u200b\"\n"; line.String() != want {
		t.Errorf("in JSON it is %q, want %q", line.String(), want)
	}
}
