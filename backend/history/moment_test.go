package history

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestParseMomentReadsCommonFormats(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 33, 500, time.UTC)
	for _, c := range []struct {
		text string
		want int64 // -1 for an error
	}{
		{"0", 0}, {"1795262400", 1795262400}, {"253402300800", 253402300800},
		{"1795262400000", -1}, {"+5", -1}, {"1.5", -1}, {"-5", -1},
		{"2026-11-21T12:00:00Z", 1795262400}, {"2026-11-21T13:00:00+01:00", 1795262400},
		{"1969-12-31T23:59:59Z", -1}, {"1969-12-31", -1},
		{"2026-11-21", 1795219200}, {"2026-11-21T12:00", 1795262400}, {"2026-11-21 12:00", 1795262400},
		{"2026-11-21T12:00:05", 1795262405}, {"2026-11-21 12:00:05", 1795262405},
		{"2026-02-29", -1}, {"2026-11", -1}, {"2026-11-21 ", -1}, {"2026-11-21T12", -1}, {"2026-11-21T24:00", -1}, {"21.11.2026", -1},
		{"-90m", now.Unix() - 5400}, {"-12h", now.Unix() - 43200}, {"-30d", now.Unix() - 2592000}, {"-2w", now.Unix() - 1209600},
		{"-1y", now.Unix() - 365*86400}, {"00:00", 1795219200}, {"24:00", -1}, {"7", -1}, {"12", -1}, {"2026", -1}, {"20261121", -1},
		{"2026-11-21T12:00Z", 1795262400}, {"2026-11-21T13:00+01:00", 1795262400},
		{"-0m", now.Unix()}, {"12h", -1}, {"-h", -1}, {"-", -1}, {"--1h", -1}, {"-1.5h", -1}, {"-3000w", -1}, {"-9999999999w", -1},
		{"", -1}, {"yesterday", -1},
	} {
		got, err := ParseMoment(c.text, now, time.UTC)
		if err != nil {
			got = -1
		}
		if got != c.want {
			t.Errorf("ParseMoment(%q) = %d (%v), want %d", c.text, got, err, c.want)
		}
	}
}

// An error that offers a form that is refused leads nowhere.
func TestParseMomentErrorOffersOnlyValidFormats(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	_, err := ParseMoment("yesterday", now, time.UTC)
	if err == nil {
		t.Fatal("yesterday is taken as a time, want an error")
	}
	_, offers, _ := strings.Cut(err.Error(), ": ")
	forms := regexp.MustCompile(`-?\d[^ ,]*`).FindAllString(offers, -1)
	for _, form := range forms {
		if _, err := ParseMoment(form, now, time.UTC); err != nil {
			t.Errorf("it offers %s, and then says %v", form, err)
		}
	}
	if len(forms) < 10 {
		t.Errorf("it offers %q, want a form of each kind", forms)
	}
}

func TestClockAfterEndsTheRange(t *testing.T) {
	now := time.Date(2026, 11, 21, 20, 50, 0, 0, time.UTC)
	for _, c := range []struct{ zone, from, to, want string }{
		{"UTC", "20:30", "20:59", "2026-11-21T20:59:00Z"},
		{"UTC", "21:00", "20:59", "2026-11-21T20:59:00Z"},
		{"UTC", "20:30", "20:30", "2026-11-22T20:30:00Z"},
		{"UTC", "2026-11-15", "14:00", "2026-11-15T14:00:00Z"},
		{"UTC", "2026-11-15T15:00", "14:00", "2026-11-16T14:00:00Z"},
		{"UTC", "-1d", "20:00", "2026-11-21T20:00:00Z"},
		{"Europe/Berlin", "2026-10-24 12:00", "11:00", "2026-10-25T11:00:00+01:00"},
		{"Europe/Berlin", "2026-10-25 02:30", "02:15", "2026-10-26T02:15:00+01:00"},
		{"UTC", "", "20:59", ""}, {"UTC", "20:30", "-1h", ""}, {"UTC", "then", "20:59", ""},
	} {
		zone, got := zoneOf(t, c.zone), ""
		if at, ok := ParseClockAfter(c.to, c.from, now, zone); ok {
			got = time.Unix(at, 0).In(zone).Format(time.RFC3339)
		}
		if got != c.want {
			t.Errorf("from %s to %s in %s ends at %q, want %q", c.from, c.to, c.zone, got, c.want)
		}
	}
}

func TestParseMomentUsesTheGivenZone(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ promise, zone, text, want string }{
		{"a day begins at its midnight", "Europe/Berlin", "2026-11-15", "2026-11-15T00:00:00+01:00"},
		{"on the other side of the world too", "Pacific/Auckland", "2026-11-15", "2026-11-15T00:00:00+13:00"},
		{"a day without a midnight begins at one o'clock", "America/Sao_Paulo", "2018-11-04", "2018-11-04T01:00:00-02:00"},
		{"a date that was left out begins with the next", "Pacific/Apia", "2011-12-30", "2011-12-31T00:00:00+14:00"},
		{"summer time", "Europe/Berlin", "2026-07-01T12:30", "2026-07-01T12:30:00+02:00"},
		{"of a time that comes twice, the first", "Europe/Berlin", "2026-10-25 02:30", "2026-10-25T02:30:00+02:00"},
		{"of half an hour that comes twice, too", "Australia/Lord_Howe", "2026-04-05 01:45", "2026-04-05T01:45:00+11:00"},
		{"a time that clocks skip, by the clock before", "Europe/Berlin", "2026-03-29T02:30", "2026-03-29T03:30:00+02:00"},
		{"a zone in the text goes before", "Europe/Berlin", "2026-11-15T12:00:00Z", "2026-11-15T13:00:00+01:00"},
		{"half an hour from UTC", "Asia/Kolkata", "2026-11-15T00:00", "2026-11-15T00:00:00+05:30"},
		{"a time of the day that has been today", "Europe/Berlin", "12:59", "2026-11-21T12:59:00+01:00"},
		{"this minute", "Europe/Berlin", "13:00", "2026-11-21T13:00:00+01:00"},
		{"a time of the day that was yesterday last", "Europe/Berlin", "14:03", "2026-11-20T14:03:00+01:00"},
	} {
		zone := zoneOf(t, c.zone)
		at, err := ParseMoment(c.text, now, zone)
		if got := time.Unix(at, 0).In(zone).Format(time.RFC3339); err != nil || got != c.want {
			t.Errorf("%s: %q in %s is %s (%v), want %s", c.promise, c.text, c.zone, got, err, c.want)
		}
	}
}

// What a clock showed at any moment is read as that moment, or as the earlier one at which it showed the same.
func TestClockTimesReadBackAsTheirMoment(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 1))
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu"} {
		zone := zoneOf(t, name)
		for range rounds(20_000) {
			at := unix(t, "2005-01-01T00:00:00Z") + r.Int64N(25*365*Day)
			text := time.Unix(at, 0).In(zone).Format(time.DateTime)
			got, ok := ParseLocal(text, time.Time{}, zone)
			if !ok || got > at || time.Unix(got, 0).In(zone).Format(time.DateTime) != text {
				t.Fatalf("-seed %d: %d in %s is %s, which is read as %d (%t)", *seed, at, name, text, got, ok)
			}
		}
	}
}

func TestStepsAreWholeMinutesOrWholeDays(t *testing.T) {
	for text, want := range map[string]int64{"1m": 60, "15m": 900, "300": 300, "90m": 5400, "6h": 21600, "24h": Day, "1d": Day, "1440m": Day,
		"2w": 14 * Day, "86400": Day, "36h": 0, "90": 0, "0": 0, "0m": 0, "": 0, "m": 0, "-5m": 0, "15s": 0, "1.5h": 0, "auto": 0,
		"4294967295w": 0, "99999999999999999999": 0} {
		got, err := ParseStep(text)
		if got != want || (err == nil) != (want > 0) || err != nil && !strings.Contains(err.Error(), "is not a width of buckets") {
			t.Errorf("ParseStep(%q) = %d (%v), want %d, or for 0 an error", text, got, err, want)
		}
	}
}
