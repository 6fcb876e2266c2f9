package history

import (
	"fmt"
	"strconv"
	"time"
)

// Range is a half-open range of time, in Unix seconds.
type Range struct{ From, To int64 }

// Always returns the range that holds every point of every series.
func Always() Range { return Range{0, (maxMinute + 1) * minute} }

// widen moves both ends outwards to multiples of a width.
func (r Range) widen(width int64) Range {
	return Range{floorDiv(r.From, width) * width, ceilDiv(r.To, width) * width}
}

// Length returns the range's length in seconds.
func (r Range) Length() int64 { return r.To - r.From }

// ParseMoment reads a moment: Unix seconds, RFC 3339, or a time before now, such as -90m, -12h, -30d or -2w. It
// answers in Unix seconds, without fractions. A moment before 1970 or after the year 9999 is an error.
func ParseMoment(text string, now time.Time) (int64, error) {
	at, err := parseMoment(text, now)
	switch {
	case err != nil:
		return 0, err
	case at < Always().From:
		return 0, fmt.Errorf("%q is before 1970", text)
	case at > Always().To:
		return 0, fmt.Errorf("%q is after the year 9999: give seconds, not milliseconds", text)
	}
	return at, nil
}

func parseMoment(text string, now time.Time) (int64, error) {
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds >= 0 && text[0] != '+' {
		return seconds, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.Unix(), nil
	}
	if seconds, ok := parseAgo(text); ok {
		return now.Unix() - seconds, nil
	}
	return 0, fmt.Errorf("%q is not a time: use Unix seconds, RFC 3339 such as 2026-11-21T12:00:00Z, or how long ago, "+
		"such as -90m, -12h, -30d or -2w", text)
}

// parseAgo reads how long ago something was, in seconds.
func parseAgo(text string) (int64, bool) {
	if len(text) < 3 || text[0] != '-' {
		return 0, false
	}
	unit, known := map[byte]int64{'m': minute, 'h': hour, 'd': day, 'w': week}[text[len(text)-1]]
	n, err := strconv.ParseUint(text[1:len(text)-1], 10, 32)
	return int64(n) * unit, known && err == nil
}
