package terminal

import "testing"

func TestSpanIsShort(t *testing.T) {
	for seconds, want := range map[int64]string{
		0: "0s", 1: "1s", 59: "59s", 60: "1m", 61: "1m 1s", 3599: "59m 59s", 3600: "1h", 3661: "1h 1m", 86400: "1d",
		90061: "1d 1h", 86459: "1d",
	} {
		if got := Span(seconds); got != want {
			t.Errorf("Span(%d) = %q, want %q", seconds, got, want)
		}
	}
}
