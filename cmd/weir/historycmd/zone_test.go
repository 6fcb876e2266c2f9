package historycmd

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/cmd/weir/terminal"
)

func TestTimesUseTheShownZone(t *testing.T) {
	port := someHistory(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"show", "--domain", "shop", "--from", "2026-11-20", "--to", "2026-11-21", "--tz", "Europe/Berlin"}, "2026-11-20 00:00 to 2026-11-21 00:00 CET (1d)\n"},
		{[]string{"show", "--domain", "shop", "--from", "2026-10-24", "--to", "2026-10-26", "--tz", "Europe/Berlin"}, "2026-10-24 00:00 CEST to 2026-10-26 00:00 CET (2d"},
		{[]string{"top", "--from", "2026-11-21 12:30", "--to", "2026-11-21T12:45", "--tz", "Europe/Berlin"}, "2026-11-21 12:30 to 12:45 CET (15m), by hits\n"},
		{[]string{"show", "--domain", "shop", "--from", "2026-11-20", "--step", "1d", "--tz", "Asia/Kolkata"}, "2026-11-20 00:00 to 2026-11-21 17:31 IST (1d 17h), ┄ still counting\n"},
	} {
		if got, err := runHistory(t, append(c.args, "--admin", port)...); codeOf(err) == 2 || !strings.HasPrefix(got, c.want) {
			t.Errorf("weir history %s prints\n%s(%v), want it to begin with %s", strings.Join(c.args, " "), got, err, c.want)
		}
	}
	q, out := url.Values{}, terminal.Output{Zone: zoneOf(t, "America/New_York")}
	if err := (&rangeFlags{From: "2026-11-20", To: "-1h"}).addTo(q, &out); err != nil || q.Encode() != "from=1795150800&to=-1h&tz=America%2FNew_York" {
		t.Errorf("without --tz, a day in New York is asked for as %v (%v), want Unix seconds and the zone: whoever answers may be elsewhere", q, err)
	}
	for zone, want := range map[*time.Location]string{time.UTC: "UTC", time.FixedZone("/usr/share/zoneinfo/Asia/Tokyo", 9*history.Hour): "Asia/Tokyo",
		time.FixedZone("/home/ann/zone", 9*history.Hour): "UTC"} {
		if got := namedZone(zone).String(); got != want {
			t.Errorf("the zone %q is asked for, and shown, as %s, want %s: nobody else may know its name", zone, got, want)
		}
	}
	// 1795262400 is noon of UTC, 07:00 in New York: 06:30 was half an hour ago, and 07:30 yesterday.
	noon := time.Unix(1795262400, 0)
	if got := Moment("07:30").After("06:30", out.Zone, noon); got != "1795264200" {
		t.Errorf("from 06:30 to 07:30 at 07:00 in New York ends at %s, want 1795264200, half an hour from now", got)
	}
	for clock, want := range map[Moment]string{"06:30": "1795260600", "07:30": "1795177800"} {
		if got := clock.In(out.Zone, noon); got != want {
			t.Errorf("at 07:00 in New York, %s is asked for as %s, want %s: the last time that the clock there showed it", clock, got, want)
		}
	}
}

func TestDaysWithoutTZUseTheLocalZone(t *testing.T) {
	show := showCommand{rangeFlags: rangeFlags{From: "2026-11-20", To: "2026-11-21"}, Step: "1d"}
	show.Address, show.Timeout, show.Domain = someHistory(t), process.Hang, "shop"
	var local, named bytes.Buffer
	err := show.Run(t.Context(), terminal.Output{Out: &local, Err: io.Discard, Zone: zoneOf(t, "Asia/Tokyo")})
	show.TZ = "Asia/Tokyo"
	if err = errors.Join(err, show.Run(t.Context(), terminal.Output{Out: &named, Err: io.Discard, Zone: time.UTC})); err != nil || local.String() != named.String() {
		t.Errorf("in Tokyo a day is shown as\n%s(%v)\nwant it as with --tz Asia/Tokyo:\n%s", &local, err, &named)
	}
}
