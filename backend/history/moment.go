package history

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// minUnix is the least Unix time, except 0, that may be written as a number: 12 is probably an hour, and 2026 a year.
const minUnix = 100_000_000

// ParseMoment reads a moment, in Unix seconds: a time before now, such as -90m, -12h, -30d, -2w or -1y; RFC 3339, with
// or without seconds; a time of the zone, see [ParseLocal]; or Unix seconds, 0 or from minUnix on. It drops fractions
// of a second. It returns an error for a moment before 1970 or after the year 9999.
func ParseMoment(text string, now time.Time, zone *time.Location) (int64, error) {
	at, ok := parseMoment(text, now, zone)
	switch {
	case !ok:
		return 0, fmt.Errorf("%q is not a time: use how long ago, such as -90m, -12h, -30d, -2w or -1y, a day such as "+
			"2026-11-21, a minute such as 2026-11-21T12:00, also with its zone as in 2026-11-21T12:00Z or 2026-11-21T12:00+01:00, "+
			"a time of the day such as 14:03, or Unix seconds such as 1795262400", text)
	case at < Always().From:
		return 0, fmt.Errorf("%q is before 1970", text)
	case at > Always().To:
		return 0, fmt.Errorf("%q is after the year 9999: give seconds, not milliseconds", text)
	}
	return at, nil
}

func parseMoment(text string, now time.Time, zone *time.Location) (int64, bool) {
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds >= 0 && text[0] != '+' {
		return seconds, seconds == 0 || seconds >= minUnix
	}
	for _, layout := range [...]string{time.RFC3339, "2006-01-02T15:04Z07:00"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.Unix(), true
		}
	}
	if ago, before := strings.CutPrefix(text, "-"); before {
		seconds, ok := parseSpan(ago)
		return now.Unix() - seconds, ok
	}
	return ParseLocal(text, now, zone)
}

// ParseLocal reads a local date or time of a zone, in Unix seconds, and reports whether text is one. 2026-11-21 is the
// beginning of that day; 2026-11-21T12:00 and 2026-11-21 12:00 are that minute, and may have seconds; 14:03 is the last
// moment, not after now, at which the clock showed that time. If clocks go back and a time comes twice, it is the first
// one. A time that clocks skip is converted with the offset before.
func ParseLocal(text string, now time.Time, zone *time.Location) (int64, bool) {
	if at, err := time.Parse(time.DateOnly, text); err == nil {
		return midnight(floorDiv(at.Unix(), Day), zone), true
	}
	for _, layout := range [...]string{"2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05", time.DateTime} {
		if at, err := time.Parse(layout, text); err == nil {
			return onClock(at.Unix(), zone), true
		}
	}
	clock, ok := parseClock(text)
	for today := dayOf(now.Unix(), zone) * Day; ok; today -= Day {
		if at := onClock(today+clock, zone); at <= now.Unix() {
			return at, true
		}
	}
	return 0, false
}

// ParseClockAfter reads a time of the day such as 14:03, as the end of a range: the first moment after another one, a
// text for [ParseMoment], at which the zone's clock shows it. It reports whether both texts are valid.
func ParseClockAfter(text, moment string, now time.Time, zone *time.Location) (int64, bool) {
	clock, ok := parseClock(text)
	begin, err := ParseMoment(moment, now, zone)
	for today := dayOf(begin, zone) * Day; ok && err == nil; today += Day {
		if at := onClock(today+clock, zone); at > begin {
			return at, true
		}
	}
	return 0, false
}

// parseClock reads a time of the day such as 14:03, in seconds.
func parseClock(text string) (int64, bool) {
	clock, err := time.Parse("15:04", text)
	return Hour*int64(clock.Hour()) + Minute*int64(clock.Minute()), err == nil
}

// onClock returns when the clock of a zone shows the time that a clock of UTC shows at utc.
func onClock(utc int64, zone *time.Location) int64 {
	offset := func(at int64) int64 {
		_, seconds := time.Unix(at, 0).In(zone).Zone()
		return int64(seconds)
	}
	before := offset(utc - Day) // zones are at most 14 hours from UTC
	for _, candidate := range [...]int64{utc - before, utc - offset(utc+Day)} {
		if offset(candidate) == utc-candidate {
			return candidate
		}
	}
	return utc - before
}

// parseSpan reads a duration such as 90m, 12h, 30d, 2w or 1y (365 days), in seconds.
func parseSpan(text string) (int64, bool) {
	if len(text) < 2 {
		return 0, false
	}
	unit, known := map[byte]int64{'m': Minute, 'h': Hour, 'd': Day, 'w': Week, 'y': 365 * Day}[text[len(text)-1]]
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 32)
	return int64(n) * unit, known && err == nil
}

// ParseStep reads the width of buckets, in seconds: 15m, 6h, 1d, 2w, or a number of seconds. The width must be whole
// minutes, and above a day whole days.
func ParseStep(text string) (int64, error) {
	step, ok := parseSpan(text)
	if seconds, err := strconv.ParseUint(text, 10, 40); err == nil {
		step, ok = int64(seconds), true
	}
	if !ok || step == 0 || step > Always().Length() || step > Day && step%Day > 0 || step%Minute > 0 {
		return 0, fmt.Errorf("%q is not a width of buckets: use whole minutes, or from a day on whole days, such as 15m, 6h, 1d or 2w, "+
			"or as many seconds, such as 900", text)
	}
	return step, nil
}
