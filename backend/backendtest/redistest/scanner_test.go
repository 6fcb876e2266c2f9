package redistest

import (
	"slices"
	"strings"
	"testing"
)

func TestScannerFindsCommandsHoweverTheyArrive(t *testing.T) {
	for _, c := range []struct {
		promise string
		sent    string
		want    []string
		opaque  bool
	}{
		{"one", "*1\r\n$4\r\nping\r\n", []string{"PING"}, false},
		{"a pipeline", "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n", []string{"GET", "PING"}, false},
		{"arguments that look like commands",
			"*3\r\n$3\r\nSET\r\n$10\r\n*1\r\n$4\r\nPI\r\n$0\r\n\r\n*1\r\n$4\r\nPING\r\n", []string{"SET", "PING"}, false},
		{"no protocol", "PING\r\n*1\r\n$4\r\nPING\r\n", nil, true},
		{"no lines", strings.Repeat("\x16", 100), nil, true},
	} {
		t.Run(c.promise, func(t *testing.T) {
			for at := range c.sent {
				var s scanner
				got := append(s.scan([]byte(c.sent[:at])), s.scan([]byte(c.sent[at:]))...)
				if !slices.Equal(got, c.want) || s.opaque != c.opaque {
					t.Errorf("cut at %d: %q, opaque %v, want %q and %v", at, got, s.opaque, c.want, c.opaque)
				}
			}
			var s scanner
			var got []string
			for i := range c.sent {
				got = append(got, s.scan([]byte(c.sent[i:i+1]))...)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("byte for byte: %q, want %q", got, c.want)
			}
		})
	}
}
