package transfer

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func readAll(text string) (rows []Row, err error) {
	err = readRows(strings.NewReader(text), noon, 0, func(row Row) error {
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

func TestReadRowsTakesPlainAndWindowsFiles(t *testing.T) {
	t.Parallel()
	want := []Row{
		{history.ID{Domain: "shop", Path: "user", Outcome: history.Over, Value: "user=ann"}, 1795219200, 3600, 7, 3},
		{history.ID{Domain: "shop", Path: "user", Outcome: history.Near}, 1795219260, 60, 5, 0},
	}
	for name, text := range map[string]string{
		"CSV": "domain,path,outcome,value,start,width,sum,peak\nshop,user,over,user=ann,1795219200,3600,7,3\nshop,user,near,,1795219260,60,5,\n",
		"CRLF and a mark": "\uFEFFdomain,path,outcome,value,start,width,sum,peak\r\nshop,user,over,user=ann,1795219200,3600,7,3\r\n" +
			"shop,user,near,,1795219260,60,5,0\r\n",
	} {
		if got, err := readAll(text); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s is read as %+v, %v; want %+v", name, got, err, want)
		}
	}
}

func TestBadRowErrorsNameLineAndColumn(t *testing.T) {
	t.Parallel()
	const header = "domain,path,outcome,value,start,width,sum,peak\nshop,user,over,,1795219200,3600,7,3\n"
	for text, want := range map[string]string{
		header + "shop,user,over,,1795219200,3600,7\n":                          "record on line 3: wrong number of fields",
		header + "shop,user,over,,1795219200,3600,-7,3\n":                       `line 3: column sum: "-7" is not a whole number from 0`,
		header + "shop,user,over,,1795219200,3600,0,0\n":                        "line 3: column sum: 0 hits with",
		header + "shop,user,over,,1795219200,3600,1000000000000000000,0\n":      "1 to 999999999999999999 are allowed",
		header + "shop,user,over,,1795219200,3600,7,8\n":                        "column peak: 8 in a minute is more than the 7 hits",
		header + "shop,user,over,,1795219200,300,70,10\n":                       "column sum: 70 hits with at most 10 in a minute cannot be in 5 minutes: 1 to 50 are allowed",
		header + "shop,user,over,,1795219201,3600,7,3\n":                        "column start: 1795219201 must be the Unix second of a whole minute",
		header + "shop,user,over,,1795219200000,3600,7,3\n":                     "column start: 1795219200000 must be the Unix second",
		header + "shop,user,over,,2026-11-21,3600,7,3\n":                        `column start: "2026-11-21" is not a whole number`,
		header + "shop,user,over,,1795262460,60,7,3\n":                          "column start: 1795262460 must be",
		header + "shop,user,over,,1795219200,90,7,3\n":                          "column width: 90 is not the width of a bucket",
		header + "shop,user,over,,1795219200,604800,7,3\n":                      "column width: 604800 is not",
		header + "shop,user,limited,,1795219200,3600,7,3\n":                     `column outcome: "limited" is not an outcome: use one of within, over`,
		header + ",user,over,,1795219200,3600,7,3\n":                            `column domain: "" is empty`,
		header + "shop,,over,,1795219200,3600,7,3\n":                            `column path: "" is no path`,
		header + "shop,user/path=/login,over,,1795219200,3600,7,3\n":            `column path: "user/path=/login" is no path as weir stores it, user/path=%2Flogin: write`,
		header + "shop,us\xffer,over,,1795219200,3600,7,3\n":                    "column path: \"us\\xffer\" is empty, not UTF-8",
		header + "shop,\"user,over\n\n,,1795219200,3600,7,3\n":                  "record on line 3; parse error on line 5",
		header + "shop," + strings.Repeat("x", maxName+1) + ",over,,0,60,1,1\n": "has more than 16384 bytes",
		"":                                      "it is empty: it must name the columns, domain,path,outcome,value,start,width,sum,peak",
		header + "d,\"p\n\",over,,0,60,1,\n":    `line 3: column path: "p\n" holds a control character`,
		header + "d\x00,p,over,,0,60,1,\n":      `line 3: column domain: "d\x00" holds a control character`,
		header + "d,p,over,user=\x7f,0,60,1,\n": `line 3: column value: "user=\x7f" holds a control character`,
		header + "d,p,over,,0,60,1,\n\nd,p,over,,0,60,-1,\n": "line 5: column sum",
		"domain,path\n": `line 1 is "domain,path": it must name the columns, domain,path,outcome,value`,
	} {
		if _, err := readAll(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200q is read with %v, want %q", text, err, want)
		}
	}
}

func TestImportKeepsSumAndPeak(t *testing.T) {
	t.Parallel()
	for _, r := range []Row{
		{Start: 0, Width: 60, Sum: 1}, {Start: 0, Width: 60, Sum: 9, Peak: 9}, {Start: 3600, Width: 300, Sum: 7, Peak: 3},
		{Start: 3600, Width: 300, Sum: 50, Peak: 10}, {Start: 86400, Width: 86400, Sum: 1}, {Start: 86400, Width: 86400, Sum: 1440*5 + 3},
		{Start: 86400, Width: 86400, Sum: 100_000, Peak: 70}, {Start: 86400, Width: 86400, Sum: history.MaxTotal, Peak: history.MaxTotal},
		{Start: 86400, Width: 86400, Sum: history.MaxTotal}, {Start: 900, Width: 900, Sum: 77, Peak: 6},
	} {
		r.ID = history.ID{Domain: "d", Path: "p"}
		if err := r.check(noon, 0); err != nil {
			t.Errorf("%+v: %v", r, err)
			continue
		}
		sum, peak, last, least := uint64(0), uint64(0), r.Start/60-1, uint64(math.MaxUint64)
		for minute, hits := range r.Minutes() {
			if minute <= last || minute >= (r.Start+r.Width)/60 || hits == 0 {
				t.Errorf("%+v has %d hits in minute %d, after %d", r, hits, minute, last)
			}
			sum, peak, least, last = sum+hits, max(peak, hits), min(least, hits), minute
		}
		if sum != r.Sum || r.Peak > 0 && peak != r.Peak {
			t.Errorf("%+v is counted with the sum %d and the peak %d", r, sum, peak)
		}
		if r.Peak == 0 && peak-least > 1 {
			t.Errorf("%+v, whose peak is not known, has minutes of %d to %d, want all the same", r, least, peak)
		}
	}
}

// As many minutes as a row has would take a Redis 1,440 times as long, and a job that moves them.
func TestEachBucketRowIsOneIncrement(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		row        Row
		increments int
		tier       history.Tier
		peak       uint64
	}{
		{Row{Start: 60, Width: 60, Sum: 7, Peak: 7}, 1, history.Minutes, 7},
		{Row{Start: 300, Width: 300, Sum: 7}, 1, history.FiveMinutes, 2},
		{Row{Start: 3600, Width: 3600, Sum: 100, Peak: 9}, 1, history.Hours, 9},
		{Row{Start: 86400, Width: 86400, Sum: 100_000, Peak: 70}, 1, history.Days, 70},
		{Row{Start: 86400, Width: 86400, Sum: 1441}, 1, history.Days, 2},
		{Row{Start: 360, Width: 300, Sum: 5}, 5, history.Minutes, 1}, // no bucket begins there
		{Row{Start: 0, Width: 900, Sum: 30}, 15, history.Minutes, 2},
	} {
		var all []history.Increment
		for i := range c.row.Increments() {
			all = append(all, i)
		}
		if len(all) != c.increments || all[0].Tier != c.tier || max(all[0].Peak, all[0].Hits*uint64(min(len(all)-1, 1))) != c.peak {
			t.Errorf("%+v is counted as %+v, want %d of %v with the peak %d", c.row, all, c.increments, c.tier, c.peak)
		}
	}
}

// Whatever is read is sound, or refused with its line.
func FuzzReadRows(f *testing.F) {
	f.Add("domain,path,outcome,value,start,width,sum,peak\nshop,\"us\"\"er\",over,,1795219200,3600,7,3\n")
	f.Add("domain,path,outcome,value,start,width,sum,peak\nd,p,near,,0,60,5,\n")
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := readAll(text)
		if err != nil && err.Error() == "" {
			t.Errorf("%q is refused without a reason", text)
		}
		for _, r := range rows {
			sum, minutes := uint64(0), 0
			for _, hits := range r.Minutes() {
				sum += hits
				minutes++
			}
			if sum != r.Sum || minutes > 1440 {
				t.Errorf("%+v of %q is counted as %d hits in %d minutes", r, text, sum, minutes)
			}
		}
	})
}
