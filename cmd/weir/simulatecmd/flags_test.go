package simulatecmd

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// withRule names a rule.
func withRule(c Command, domain, path string) Command {
	c.Domain, c.Path = domain, path
	return c
}

func TestWrongQueryNamesTheRemedy(t *testing.T) {
	for _, tc := range []struct {
		c    Command
		in   string
		want string
	}{
		{Command{}, "", "choose the traffic by one of --csv"},
		{Command{CSV: "-", Pattern: "day"}, "", "choose the traffic by one of --csv"},
		{Command{Compare: true, CSV: "-"}, "", "with --compare"},
		{Command{Compare: true, Dirs: []string{"."}, CSV: "-", Plot: "a.svg"}, "", "leave out --plot and --path"},
		{withRule(Command{Compare: true, Dirs: []string{"."}, CSV: "-"}, "", "user"), "", "leave out --plot and --path"},
		{Command{CSV: "-"}, "1,open=1\n2,nobody=1\n", "no limit applied to any request of this traffic"},
		{Command{CSV: "-"}, "x,user=ann\n", `-:1: time: "x" is neither RFC 3339`},
		{Command{CSV: "-"}, "1,user=ann\n2,user\n", `-:2: descriptor: "user" in "user" has no "="`},
		{Command{CSV: "-"}, "1,user=ann,0\n", `-:1: hits: "0" is not a number from 1`},
		{Command{CSV: "-"}, "", "this traffic has no request"},
		{Command{CSV: "nowhere"}, "", "no such file"},
		{Command{EnvoyLog: "-"}, "", "give both"},
		{Command{EnvoyLog: "-", Map: "user={u}"}, "{", "-:1: the line is not a JSON object"},
		{Command{EnvoyLog: "-", Map: "user={u}"}, "{}", "-:1: the line has no start_time"},
		{Command{EnvoyLog: "-", Map: "user={u"}, "", `--map: "{u" is no field of the log`},
		{Command{EnvoyLog: "-", Map: "user={u|lower}"}, "", "write {name}, {name|path} or {name|host}"},
		{Command{EnvoyLog: "-", Map: "user={u}"}, `{"start_time": "2026-11-21T12:00:00Z", "peer": "x"}`, "no line has the fields of --map: there are peer, start_time"},
		{Command{CSV: "-"}, "time,descriptor\n1,user=ann,path=/pay\n", "-:2: 3 fields, and there are 2 columns: put a descriptor with a comma in quotes"},
		{Command{CSV: "-"}, "time,descriptor,hit\n1,user=ann,4\n", `the header names "hit": use time`},
		{withRule(Command{CSV: "-"}, "shopp", ""), "1,user=ann\n", "--domain: shopp is not configured, but shop"},
		{withRule(Command{CSV: "-"}, "", "usr"), "1,user=ann\n", "no request of this traffic got a rule of --path"},
		{Command{Pattern: "day"}, "", "--descriptor is missing"},
		{Command{Pattern: "day", Descriptor: "user=ann", Callers: 2}, "", "write # where"},
		{Command{Pattern: "day", Descriptor: "open=1"}, "", "no limit of domain shop applies to open=1: weir check"},
		{Command{Pattern: "day", Descriptor: "user=a", Rate: "x"}, "", `--rate: "x" is not a limit`},
		{Command{Pattern: "boundary", Descriptor: "user=a", Rate: "9/minute"}, "", "--rate is not for --pattern boundary"},
		{Command{Pattern: "one-of-many", Descriptor: "user=a"}, "", "--pattern one-of-many needs --callers"},
		{Command{Pattern: "poisson", Descriptor: "user=a", Rate: "9000000/second"}, "", "poisson has 32,400,000,000 requests, and at most 1,000,000,000 are simulated: --for 1m51s is"},
		{Command{Pattern: "boundary", Descriptor: "user=#", Callers: 1000, For: 100_000 * time.Hour}, "", "boundary has 60,000,000,000 requests"},
		{Command{Pattern: "day", Descriptor: "user=#", Callers: 1e6 + 1}, "", "--callers must be from 1 to 1,000,000"},
		{Command{CSV: "-", Rate: "9/minute"}, "", "--rate is not for --csv, but for --pattern"},
		{Command{CSV: "-", Map: "user={u}"}, "", "--map is not for --csv, but for --envoy-log"},
		{Command{EnvoyLog: "-", Map: "user={u}", Callers: 2}, "", "--callers is not for --envoy-log, but for --pattern and --from-history"},
		{Command{FromHistory: true, Descriptor: "user=a"}, "", "--descriptor is not for --from-history, but for --pattern"},
		{Command{FromHistory: true}, "", "name a rule by --path"},
	} {
		if text, _, err := simulate(t, shop, tc.c, tc.in); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %s, %v; want %q", tc.c, text, err, tc.want)
		}
	}
	if text, _, err := simulate(t, "domain: shop\ndescriptors: 1\n", Command{CSV: "-"}, ""); !errors.Is(err, terminal.ExitNo) || !strings.Contains(text, "shop.yaml:2") {
		t.Errorf("%s, %v; want the fault of the files, and exit code 1", text, err)
	}
}
