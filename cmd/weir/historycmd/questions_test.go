package historycmd

import (
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/cmd/weir/terminal"
)

func TestTimesAreOfTheZoneThatTheyAreShownIn(t *testing.T) {
	port := someHistory(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"show", "--domain", "shop", "--from", "2026-11-20", "--to", "2026-11-21", "--tz", "Europe/Berlin"}, "2026-11-20 00:00 to 2026-11-21 00:00 CET (1d)\n"},
		{[]string{"top", "--from", "2026-11-21 12:30", "--to", "2026-11-21T12:45", "--tz", "Europe/Berlin"}, "2026-11-21 12:30 to 12:45 CET (15m), by hits\n"},
		{[]string{"show", "--domain", "shop", "--from", "2026-11-20", "--step", "1d", "--tz", "Asia/Kolkata"}, "2026-11-20 00:00 to 2026-11-22 00:00 IST (2d)\n"},
	} {
		if got, err := runHistory(t, append(c.args, "--admin", port)...); err != nil || !strings.HasPrefix(got, c.want) {
			t.Errorf("weir history %s prints\n%s(%v), want it to begin with %s", strings.Join(c.args, " "), got, err, c.want)
		}
	}
	q, out := url.Values{}, terminal.Output{Zone: zoneOf(t, "America/New_York")}
	if err := (&timeRange{From: "2026-11-20", To: "-1h"}).addTo(q, &out); err != nil || q.Encode() != "from=1795150800&to=-1h&tz=" {
		t.Errorf("without --tz, a day in New York is asked for as %v (%v), want Unix seconds: whoever answers may be elsewhere", q, err)
	}
	// 1795262400 is noon of UTC, 07:00 in New York: 06:30 was half an hour ago, and 07:30 yesterday.
	noon := time.Unix(1795262400, 0)
	for clock, want := range map[Moment]string{"06:30": "1795260600", "07:30": "1795177800"} {
		if got := clock.In(out.Zone, noon); got != want {
			t.Errorf("at 07:00 in New York, %s is asked for as %s, want %s: the last time that the clock there showed it", clock, got, want)
		}
	}
}

// What the README shows is what the command prints.
func TestTheReadmeShowsACurveAsItIs(t *testing.T) {
	text, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	got, err := runHistory(t, "show", "--domain", "shop", "--path", "user/path=/pay", "--outcome", "within", "--from", "-2d",
		"--admin", someHistory(t))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for line := range strings.Lines(got) {
		if line != "\n" {
			line = "    " + line
		}
		want.WriteString(line)
	}
	if !strings.Contains(string(text), want.String()) {
		t.Errorf("README.md does not show what its command prints:\n%s", want.String())
	}
}
