package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weirproxy/weir/server/admin"
	historyapi "github.com/weirproxy/weir/server/history"
)

// runTop runs weir counters top against a port that answers a, and returns the output. It fails the test unless the
// request is asks.
func runTop(t *testing.T, c countersTop, asks string, a admin.TopAnswer) string {
	t.Helper()
	var asked string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path + "?" + r.URL.RawQuery
		_ = json.NewEncoder(w).Encode(a)
	}))
	defer s.Close()
	out := new(bytes.Buffer)
	c.portFlags = flagsFor(s)
	if err := c.Run(t.Context(), utc(out)); err != nil {
		t.Fatal(err)
	}
	if want := "/api/v1/counters/top?" + asks; asked != want {
		t.Errorf("it asks for %s, want %s", asked, want)
	}
	return out.String()
}

func TestCountersTopRanksKeys(t *testing.T) {
	const noon = 1795262400
	seven, none := uint64(7), uint64(0)
	rows := []admin.TopRow{
		{Descriptor: "tenant=t1", Path: "tenant", Limit: "100/minute",
			RankedHits: historyapi.RankedHits{Hits: 2310, Within: 420, Over: 1890, Near: 12}},
		{Descriptor: "user=ann\x1b,path=/v1/*", Path: "user/path=%2Fv1%2F*", Limit: "10/hour", Burst: 40, Shared: true,
			RankedHits: historyapi.RankedHits{Hits: 9, Within: 9}},
	}
	now := admin.TopAnswer{Domain: "shop", Path: "tenant", Source: "process", By: "over", From: noon, To: noon + 42, Found: 2, Missing: &seven, Top: rows}
	more, alone, nobody := now, now, now
	more.Found, alone.Missing = 3, &none
	nobody.Missing, nobody.Found, nobody.Top = &none, 0, nil
	past := admin.TopAnswer{Domain: "shop", Source: "history", By: "hits", From: noon, To: noon + 3600, Found: 1, Warnings: []string{"node\n2 is away"},
		Top: []admin.TopRow{{Descriptor: "user=ann", Path: "user", RankedHits: historyapi.RankedHits{Hits: 9, Over: 4, Shadow: 5}}}}
	later := past
	later.By, later.Warnings = "cost", nil
	empty := past
	empty.Top, empty.Warnings = nil, nil
	const table = `shop tenant   this weir alone, the 42s since 12:00:00, most over first

   hits   over  near             limit             rule  key
  2,310  1,890    12        100/minute           tenant  tenant=t1
      9      0     0  10/hour burst 40  user/path=/v1/*  user=ann�,path=/v1/* (all values that fit)

`
	for _, c := range []struct {
		question countersTop
		asks     string
		answer   admin.TopAnswer
		want     string
	}{
		{countersTop{Domain: "shop", Path: "tenant", By: "over", N: 5}, "by=over&domain=shop&n=5&path=tenant", now,
			table + "Counts of over may be up to 7 too low, and a key that is not listed had 7 at most.\n"},
		{countersTop{By: "over", N: 2}, "by=over&n=2", more, table + "1 more: -n lists them. " +
			"Counts of over may be up to 7 too low, and a key that is not listed had 7 at most.\n"},
		{countersTop{By: "over", N: 2}, "by=over&n=2", alone, table + "Counts of over are exact.\n"},
		{countersTop{By: "hits", N: 2}, "by=hits&n=2", nobody, "shop tenant   this weir alone, the 42s since 12:00:00, most over first\n\n" +
			"No key had any since then. Ask each weir, or the history by --from.\n"},
		{countersTop{By: "hits", N: 5, From: "-1h", To: "now"}, "by=hits&from=-1h&n=5&to=now", past,
			`shop   all weirs, from 2026-11-21 12:00 to 2026-11-21 13:00, most hits first

warning: node�2 is away

  hits  over  shadow  near  rule  value
     9     4       5     0  user  user=ann

A value may have had more, and other values some: these hits are in __other__, which weir history top lists.
`},
		{countersTop{By: "cost", N: 5, From: "-1h"}, "by=cost&from=-1h&n=5", later,
			"shop   all weirs, from 2026-11-21 12:00 to 2026-11-21 13:00, most cost first\n\n  hits  over  shadow  near  rule  value\n" +
				"     9     4       5     0  user  user=ann\n\nA value may have had more, and other values some: these hits are in __other__, which weir history top lists.\n"},
		{countersTop{By: "shadow", N: 5, From: "-1h"}, "by=shadow&from=-1h&n=5", admin.TopAnswer{Domain: "shop", By: "shadow", From: noon, To: noon + 60},
			"shop   all weirs, from 2026-11-21 12:00 to 2026-11-21 12:01, most shadow first\n\nNo value with a series of its own had hits of shadow then.\n"},
		{countersTop{By: "hits", N: 5, From: "-1h"}, "by=hits&from=-1h&n=5", empty,
			"shop   all weirs, from 2026-11-21 12:00 to 2026-11-21 13:00, most hits first\n\nNo value had a series of its own then.\n"},
	} {
		if got := runTop(t, c.question, c.asks, c.answer); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.asks, got, c.want)
		}
	}
}
