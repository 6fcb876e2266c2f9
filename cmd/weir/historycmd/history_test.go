package historycmd

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/demo"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/backend/history/transfer"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/server"
	"github.com/weirproxy/weir/server/admin"
	historyapi "github.com/weirproxy/weir/server/history"
)

// historyNoon is where the clock of these tests' history stands.
var historyNoon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

var (
	payWithin = history.ID{Domain: "shop", Path: "user/path=%2Fpay", Outcome: history.Within}
	payOver   = history.ID{Domain: "shop", Path: "user/path=%2Fpay", Outcome: history.Over}
	fromBob   = history.ID{Domain: "mail", Path: "from", Value: "bob", Outcome: history.Within}
)

// openHistory opens the history in a folder.
func openHistory(t *testing.T, dir string) *filehistory.Store {
	t.Helper()
	store, err := filehistory.Open(filehistory.Config{Dir: dir, Retention: history.DefaultRetention(), Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// countHits counts hits of a series, from the oldest to those of noon, as many as hits says for their age.
func countHits(t *testing.T, store history.Store, id history.ID, oldest, step time.Duration, hits func(age time.Duration) int) {
	t.Helper()
	var increments []history.Increment
	for age := oldest; age >= 0; age -= step {
		if n := hits(age); n > 0 {
			increments = append(increments, history.Increment{ID: id, Minute: historyNoon.Add(-age).Unix() / 60, Hits: uint64(n)})
		}
	}
	historytest.Count(t, store, increments...)
}

// someHistory is the address of a port that serves, until the tests end, two days of a daily wave, half an hour over
// the limit, and 40 days of another domain, did. No test changes it.
func someHistory(t *testing.T) string {
	t.Helper()
	if somePort != "" {
		return somePort
	}
	store, err := filehistory.InMemory(filehistory.Config{Retention: history.DefaultRetention(), Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	countHits(t, store, payWithin, 50*time.Hour, time.Minute, func(age time.Duration) int {
		return int(math.Round(200 + 150*math.Sin(age.Hours()/12*math.Pi)))
	})
	countHits(t, store, payOver, 30*time.Minute, time.Minute, func(age time.Duration) int { return 30 - int(age.Minutes()) })
	countHits(t, store, fromBob, 40*24*time.Hour, 24*time.Hour, func(time.Duration) int { return 12 })
	if _, err := store.Downsample(t.Context(), historyNoon); err != nil {
		t.Fatal(err)
	}
	somePort = serveHistory(store).Listener.Addr().String()
	return somePort
}

var somePort string // of someHistory, once it has been asked for

func noon() time.Time { return historyNoon }

func serveHistory(store history.Store) *httptest.Server {
	return httptest.NewServer(admin.Handler(admin.Parts{Ready: server.NewHealth(server.HealthRules{}).Ready, Metrics: http.NotFoundHandler(),
		History: historyapi.New(store, 15*time.Second, noon), Access: &admin.Access{}}))
}

// historyPort is the address of an admin port over a history.
func historyPort(t *testing.T, store history.Store) string {
	t.Helper()
	s := serveHistory(store)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// runHistory runs weir history as the command line would, and returns what it prints.
func runHistory(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, _, err := runTelling(t, args...)
	return out, err
}

// runTelling is runHistory, and returns what is written to stderr, too.
func runTelling(t *testing.T, args ...string) (printed, told string, err error) {
	t.Helper()
	var line struct {
		History Command `cmd:""`
	}
	parser, err := kong.New(&line, kong.BindTo(t.Context(), (*context.Context)(nil)),
		kong.Bind(ServeFunc(func(_ context.Context, dir string) error { return errors.New("served by " + dir) })))
	if err != nil {
		t.Fatal(err)
	}
	k, err := parser.Parse(append([]string{"history"}, args...))
	if err != nil {
		return "", "", err
	}
	var out, stderr bytes.Buffer
	err = k.Run(terminal.Output{Out: &out, Err: &stderr, Zone: time.UTC})
	return out.String(), stderr.String(), err
}

// codeOf is the exit code of a command that ended with an error.
func codeOf(err error) int {
	code, _ := terminal.ExitCode(err)
	return code
}

// The README shows another, which is proven there.
func TestHistoryShowDrawsTheCurve(t *testing.T) {
	port := someHistory(t)
	args := []string{"show", "--admin", port, "--path", "user/path=/pay", "--outcome", "over", "--from=-30m", "--to", "2026-11-21T12:00:00Z"}
	const want = `
2026-11-21 11:30 to 12:00 UTC (30m)

shop user/path=/pay  over
    29/min ┤                                                    ▁▁▄▄▆▆██
           ┤                                            ▁▁▃▃▅▅▇▇████████
           ┤                                      ▂▂▄▄▆▆████████████████
           ┤                              ▁▁▃▃▆▆████████████████████████
           ┤                        ▂▂▅▅▇▇██████████████████████████████
           ┤                ▂▂▄▄▆▆██████████████████████████████████████
           ┤        ▁▁▃▃▅▅▇▇████████████████████████████████████████████
           ┤  ▂▂▄▄▇▇████████████████████████████████████████████████████
         0 └┬───────────────────┬───────────────────┬───────────────────
            11:30               11:40               11:50
  total 435   lifetime 465   peak 29/min at 11:59
`
	if got, err := runHistory(t, args...); err != nil || "\n"+got != want {
		t.Errorf("weir history %s: got\n%s(%v)\nwant%s", strings.Join(args, " "), got, err, want)
	}
}

func TestHistoryTopRanksRules(t *testing.T) {
	port := someHistory(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--from", "-41d"}, `
2026-10-11 12:00 to 2026-11-21 12:01 UTC (41d), by hits

     hits  over
  605,309   465  ████████████████████  shop user/path=/pay
      492     0  █                     mail from value bob
`},
		{[]string{"--from", "-41d", "-n", "1", "--by", "within"}, `
2026-10-11 12:00 to 2026-11-21 12:01 UTC (41d), by within

   within     hits  over
  604,844  605,309   465  ████████████████████  shop user/path=/pay
and 1 more with 492; -n lists more
`},
		{[]string{"--from", "2025-10-01", "--to", "2025-10-08"}, `
2025-10-01 00:00 to 2025-10-08 00:00 UTC (7d), by hits

No such hits in this range; there are hits from 2026-10-12 00:00 to 2026-11-21 12:01.
`},
		{[]string{"--domain", "mail", "--from", "2026-11-20", "--to", "2026-11-21", "--by", "over"}, `
2026-11-20 00:00 to 2026-11-21 00:00 UTC (1d), by over

No such hits in this range; hits of other outcomes are from 2026-11-20 12:00 to 2026-11-20 12:01.
`},
	} {
		got, err := runHistory(t, append([]string{"top", "--admin", port}, c.args...)...)
		if err != nil && !errors.Is(err, terminal.ExitNothing) {
			t.Fatal(err)
		}
		if "\n"+got != c.want {
			t.Errorf("weir history top %s: got\n%s\nwant%s", strings.Join(c.args, " "), got, c.want)
		}
	}
}

// A later weir may rank by what this one does not know, and list rules in that order.
func TestTopShowsUnknownRankingsByHits(t *testing.T) {
	rows := []historyapi.TopRow{{Domain: "few", RankedHits: historyapi.RankedHits{Hits: 1}}, {Domain: "many", RankedHits: historyapi.RankedHits{Hits: 100}}}
	got := describeTop(&historyapi.TopAnswer{By: "cost", Found: 3, Total: 7, Top: rows}, time.UTC, terminal.Paint{})
	if want := "     1  █                     few \n   100  ████████████████████  many \nand 1 more; -n lists more\n"; !strings.HasSuffix(got, want) {
		t.Errorf("it is shown as\n%s\nwant\n%s", got, want)
	}
}

func TestHistoryPrintsTheAdminPortsAnswer(t *testing.T) {
	address := someHistory(t)
	host, port, _ := net.SplitHostPort(address)
	t.Setenv("DEBUG_HOST", host)
	t.Setenv("DEBUG_PORT", port)
	for line, path := range map[string]string{"show --json": "", "top --json": "/top", "verify --json": "/verify", "export": "/export"} {
		want, failed := weirtest.Get("http://" + address + "/api/v1/history" + path)
		got, err := runHistory(t, strings.Fields(line)...)
		got = strings.Replace(got, `"source":"the weir at `+address+`",`, "", 1)
		if errors.Join(failed, err) != nil || sortedLines(got) != sortedLines(want) || want == "" {
			t.Errorf("weir history %s prints\n%.300s(%v)\nthe port answers\n%.300s(%v)", line, got, err, want, failed)
		}
	}
}

func TestHistoryNamesWhereItWasRead(t *testing.T) {
	port, redis := someHistory(t), redistest.Single(t)
	host, number, _ := net.SplitHostPort(port)
	for _, c := range []struct{ variables, flags, want string }{
		{"", "--admin " + port, "the weir at " + port},
		{"DEBUG_HOST=" + host + " DEBUG_PORT=" + number + " DATA_DIR=/tmp/year", "",
			"the weir at " + port + ", from the store of that one, whatever DATA_DIR is here"},
		{"REDIS_URL=" + redis.Addr, "", "the Redis of REDIS_URL"},
	} {
		t.Run(c.want, func(t *testing.T) {
			for variable := range strings.FieldsSeq(c.variables) {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			for _, command := range []string{"show", "top", "verify", "export"} {
				if _, told, err := runTelling(t, strings.Fields(command+" "+c.flags)...); told != "Read from "+c.want+".\n" {
					t.Errorf("weir history %s tells %q (%v), want it to name %s, also where it holds nothing", command, told, err, c.want)
				}
			}
			for _, command := range []string{"show", "top", "verify"} {
				if got, told, err := runTelling(t, strings.Fields(command+" --json "+c.flags)...); told != "" || !strings.Contains(got, `"source":"`+c.want+`"`) {
					t.Errorf("weir history %s --json prints %.300s and tells %q (%v), want the source %s", command, got, told, err, c.want)
				}
			}
		})
	}
}

func TestHistoryErrorsAreSentences(t *testing.T) {
	port, empty := someHistory(t), historyPort(t, openHistory(t, t.TempDir()))
	gone := process.Addr(t) // where nobody listens
	for _, c := range []struct {
		promise string
		args    []string
		want    string
	}{
		{"a rule that has none", []string{"show", "--domain", "shop", "--path", "usr", "--admin", port},
			"no history of that; weir history top --from -1y lists what there is"},
		{"a value that has none", []string{"show", "--domain", "mail", "--value", "x\x1b", "--admin", port}, "no history of that"},
		{"a proof of nothing", []string{"verify", "--domain", "shp", "--admin", port}, "no history of that; weir history top --from -1y lists"},
		{"no history at all", []string{"verify", "--admin", empty}, "there is no history yet; hits appear within 15s"},
		{"nor to rank", []string{"top", "--admin", empty}, "there is no history yet; hits appear within 15s"},
		{"nor to draw", []string{"show", "--admin", empty}, "there is no history yet; hits appear within 15s"},
		{"a ranking of nothing", []string{"top", "--domain", "shp", "--admin", port}, "no history of that; weir history top --from -1y lists"},
		{"nobody listens", []string{"top", "--admin", gone}, gone + ": connect: connection refused"},
		{"no time", []string{"top", "--timeout", "0s", "--admin", port}, "--timeout"},
		{"a time in words", []string{"show", "--from", "yesterday", "--admin", port},
			`answers 400: from: "yesterday" is not a time: use how long ago, such as`},
		{"a time that is missing", []string{"show", "--from", "--admin", port}, "a time is missing, such as -30d"},
		{"an unknown time zone", []string{"show", "--tz", "Mars", "--admin", port}, `--tz "Mars" is not a time zone`},
	} {
		t.Run(c.promise, func(t *testing.T) {
			code := 2
			if strings.Contains(c.want, "no history") {
				code = 3
			}
			out, err := runHistory(t, c.args...)
			if err == nil || !strings.Contains(err.Error(), c.want) || codeOf(err) != code || out != "" {
				t.Errorf("printed %q, got %v; want an error with %q and exit code %d", out, err, c.want, code)
			}
		})
	}
}

// A script tells nothing from an error, whether it asks for text or JSON.
func TestNothingHasOneExitCode(t *testing.T) {
	port := someHistory(t)
	for _, asked := range []string{"--domain shp", "--domain shop --from 2025-10-01 --to 2025-10-08"} {
		for _, command := range []string{"show", "show --json", "show --outcome degraded", "top", "top --json", "top --by degraded", "export",
			"export --format openmetrics", "verify", "verify --json"} {
			if strings.HasPrefix(command, "verify") && asked != "--domain shp" {
				continue // it takes no range
			}
			if _, err := runHistory(t, append(strings.Fields(command+" "+asked), "--admin", port)...); codeOf(err) != 3 {
				t.Errorf("weir history %s %s ends with exit code %d (%v), want 3", command, asked, codeOf(err), err)
			}
		}
	}
	for _, command := range []string{"show --json", "top --json", "export", "verify --json"} {
		if _, err := runHistory(t, append(strings.Fields(command), "--admin", port)...); err != nil {
			t.Errorf("weir history %s of what there is ends with %v", command, err)
		}
	}
}

// Whether the weirs of a Redis keep a history there, or were started as ratelimit and keep none, cannot be seen in it.
func TestRedisWithoutHistoryNamesTheSetting(t *testing.T) {
	redis := redistest.Single(t)
	for _, c := range []struct{ variable, history, want string }{
		{"REDIS_URL", "", "the Redis of REDIS_URL holds no history: weirs keep one there unless HISTORY=false is set, those started as " +
			"ratelimit only if HISTORY=true or REDIS_HISTORY_URL is"},
		{"REDIS_HISTORY_URL", "", "the Redis of REDIS_HISTORY_URL holds no history: weirs keep one there unless HISTORY=false is set; hits appear within 7s"},
		{"REDIS_URL", "false", "and HISTORY=false is set: set HISTORY=true to keep one in the Redis of the counters"},
	} {
		t.Run(c.variable+c.history, func(t *testing.T) {
			t.Setenv(c.variable, redis.Addr)
			t.Setenv("HISTORY", c.history)
			t.Setenv("HISTORY_FLUSH_INTERVAL", "7s")
			for _, command := range []string{"top --by refused", "show", "verify", "export"} {
				if _, err := runHistory(t, strings.Fields(command)...); err == nil || !strings.Contains(err.Error(), c.want) || codeOf(err) != 3 {
					t.Errorf("weir history %s ends with %v, want %q and exit code 3", command, err, c.want)
				}
			}
		})
	}
}

// Each widens a range in its own way: by what is stored, or by the width of what it draws.
func TestWidenedRangesAreNamedAlike(t *testing.T) {
	port := someHistory(t)
	for _, command := range []string{"top --from 2026-10-13T10:00:00Z --to 2026-10-14T10:00:00Z", "show --domain mail --step 1d --from 2026-10-13T10:00:00Z --to 2026-10-14T10:00:00Z"} {
		got, err := runHistory(t, append(strings.Fields(command), "--admin", port)...)
		const want = "2026-10-13 00:00 to 2026-10-15 00:00 UTC (2d)"
		if err != nil || !strings.HasPrefix(got, want) || !strings.Contains(got, "\nasked for: 2026-10-13 10:00 to 2026-10-14 10:00\n") {
			t.Errorf("weir history %s prints\n%s(%v)\nwant %s, and what was asked for", command, got, err, want)
		}
	}
}

// What is yet to come of the last bucket is in neither.
func TestShowAndTopNameOneRange(t *testing.T) {
	port := someHistory(t)
	for _, command := range []string{"top --from -2d", "show --domain shop --from -2d"} {
		got, err := runHistory(t, append(strings.Fields(command), "--admin", port)...)
		line, _, _ := strings.Cut(got, ",")
		if err != nil || line != "2026-11-19 12:00 to 2026-11-21 12:01 UTC (2d)" {
			t.Errorf("weir history %s is of %s (%v)", command, line, err)
		}
	}
}

func TestUnknownValuesNameTheNearest(t *testing.T) {
	store := openHistory(t, t.TempDir())
	for _, value := range []string{"tenant=acme,user=ann", "tenant=bee"} {
		id := history.ID{Domain: "shop", Path: "tenant", Value: value, Outcome: history.Within}
		countHits(t, store, id, 0, time.Minute, func(time.Duration) int { return 3 })
	}
	countHits(t, store, payOver, 0, time.Minute, func(time.Duration) int { return 3 })
	port := historyPort(t, store)
	for args, want := range map[string]string{
		"--value acme":                       `no history of that: There is no value "acme": values are written as key=value, and the most like it is "tenant=acme,user=ann"`,
		"--value be":                         `and the most like it is "tenant=bee"`,
		"--value Tenant=bee":                 `and the most like it is "tenant=bee"`,
		"--value zz --domain shp":            "no history of that; weir history top --from -1y lists what there is",
		"--value acme --path user/path=/pay": "no history of that: No value is kept there: value_to_metric or detailed_metric of a rule keeps its values",
	} {
		for _, command := range []string{"show", "top", "export"} {
			if _, err := runHistory(t, append(strings.Fields(command+" "+args), "--admin", port)...); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("weir history %s %s ends with %v, want %s", command, args, err, want)
			}
		}
	}
	if got, err := runHistory(t, "top", "--value", "tenant=bee", "--admin", port); err != nil || !strings.Contains(got, "shop tenant value tenant=bee") || strings.Contains(got, "acme") {
		t.Errorf("the rank of one value is\n%s(%v)", got, err)
	}
	if _, err := runHistory(t, "show", "--value", "tenant=bee", "--outcome", "over", "--admin", port); err == nil || strings.Contains(err.Error(), "no value") {
		t.Errorf("a value without such hits ends with %v, want no word of a value that is not there", err)
	}
}

func TestHistoryVerifyReportsItsFindings(t *testing.T) {
	dir := t.TempDir()
	store := openHistory(t, dir)
	countHits(t, store, payOver, 2*time.Hour, time.Hour, func(time.Duration) int { return 5 })
	got, err := runHistory(t, "verify", "--admin", historyPort(t, store))
	if want := "Looked at 1 series with 3 points: each holds exactly what it ever counted.\n"; err != nil || got != want {
		t.Errorf("a sound history: printed %q (%v), want %q", got, err, want)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	historytest.ChangeChunk(t, filepath.Join(dir, filehistory.Name), nil)
	port := historyPort(t, openHistory(t, dir))
	got, err = runHistory(t, "verify", "--admin", port)
	const want = "NOT EXACT  shop user/path=/pay over: 10 stored and 0 expired, but 15 were counted: 5 are missing\n" +
		"Looked at 1 series with 2 points: 1 of them not exact.\n"
	if got != want || codeOf(err) != 1 {
		t.Errorf("a damaged history: printed %q and exit code %d, want %q and 1: a CronJob must notice", got, codeOf(err), want)
	}
	if got, err = runHistory(t, "verify", "--json", "--admin", port); codeOf(err) != 1 || !strings.Contains(got, `"broken":1`) {
		t.Errorf("with --json: printed %q and exit code %d, want 1 there too", got, codeOf(err))
	}
}

func TestHistoryShowWarnsOfUnreadableSeries(t *testing.T) {
	dir := t.TempDir()
	store := openHistory(t, dir)
	countHits(t, store, payOver, time.Hour, time.Hour, func(time.Duration) int { return 5 })
	countHits(t, store, fromBob, 0, time.Hour, func(time.Duration) int { return 12 })
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	key := historytest.ChangeChunk(t, filepath.Join(dir, filehistory.Name), []byte{0x80})
	port := historyPort(t, openHistory(t, dir))
	victim, other := []string{"--domain", "shop"}, "mail from value bob"
	warning := "shop user/path=/pay over is left out, as it cannot be read: history file " + filepath.Join(dir, filehistory.Name) + ": row " + key
	if payOver.Partition() > fromBob.Partition() {
		t.Fatal("the first chunk is of another series than this test thinks")
	}
	for _, c := range []struct {
		promise  string
		args     []string
		code     int
		want     []string
		unwanted string
	}{
		{"show gives the others", []string{"show"}, 1, []string{warning, other + "  within", "total 12"}, "No such"},
		{"show has nothing else", append([]string{"show"}, victim...), 1, []string{warning, "\nNo such hits in this range; hits appear within 15s.\n"}, other},
		{"a program is told too", append([]string{"show", "--json"}, victim...), 1,
			[]string{`"warnings":["` + warning, `"unreadable":1,"now":1795262400,"series":[]`}, other},
		{"who asks for another", []string{"show", "--domain", "mail"}, 0, []string{other}, "read"},
		{"verify lists it", []string{"verify"}, 1, []string{"NOT EXACT  shop user/path=/pay over cannot be read: history file", key,
			"\nLooked at 2 series with 2 points: 1 of them not exact.\n"}, other},
	} {
		got, err := runHistory(t, append(c.args, "--admin", port)...)
		code := codeOf(err)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: printed\n%s\nwant %q in it", c.promise, got, want)
			}
		}
		if code != c.code || c.unwanted != "" && strings.Contains(got, c.unwanted) {
			t.Errorf("%s: ended with %d, want %d, and printed\n%s\nnot to have %q", c.promise, code, c.code, got, c.unwanted)
		}
	}
}

func TestManySeriesDoNotFloodATerminal(t *testing.T) {
	a := historyapi.HistoryAnswer{Metadata: historyapi.Metadata{To: 3600}}
	for range 14 {
		a.Series = append(a.Series, historyapi.SeriesAnswer{SeriesName: historyapi.SeriesName{Domain: "shop", Path: "user", Outcome: "within"},
			Total: 1, Points: []historyapi.PointAnswer{{Width: 60, Sum: 1, Peak: 1, Tier: "1m"}}})
	}
	a.Series[3].Total = 0
	a.Series[5].Points = nil // as no weir answers
	got := (&showView{answer: &a, zone: time.UTC, width: 80}).String()
	if lines := strings.Count(got, "\n"); lines > 110 {
		t.Errorf("%d lines", lines)
	}
	if want := "\n4 more series: --path, --outcome and --value choose"; !strings.Contains(got, want) {
		t.Errorf("%q is missing from\n%s", want, got)
	}
}

func TestMergedStepsAreNamed(t *testing.T) {
	port := someHistory(t)
	const merged = "(1d)\neach bar is the mean of 2 steps, as 96 do not fit into 80 columns; --json has every step\n"
	for step, want := range map[string]bool{"15m": true, "1h": false, "": false} {
		args := []string{"show", "--admin", port, "--domain", "shop", "--from", "2026-11-20", "--to", "2026-11-21"}
		if step != "" {
			args = append(args, "--step", step)
		}
		got, err := runHistory(t, args...)
		if err != nil || strings.Contains(got, merged) != want || strings.Contains(got, "each bar") != want {
			t.Errorf("with --step %q it prints\n%s(%v)\nwant it to say %q: %v", step, got, err, merged, want)
		}
	}
}

// Of the demo, at noon, README.md shows one rule.
func TestReadmeCurveMatchesTheCommand(t *testing.T) {
	text, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	store, err := filehistory.InMemory(filehistory.Config{Retention: history.DefaultRetention(), Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	l := transfer.NewLoader(t.Context(), transfer.Target{Store: store, Concurrency: 1, Now: noon}, "demo")
	since, _ := demo.Since(historyNoon, 400)
	err = demo.Buckets(since, historyNoon, history.DefaultRetention(), func(id history.ID, b history.Point) error {
		if id != payWithin {
			return nil
		}
		return l.Add(transfer.Row{ID: id, Start: b.Start, Width: b.Tier.Width(), Sum: b.Sum, Peak: b.Peak})
	})
	if _, failed := l.Close(); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	got, err := runHistory(t, "show", "--domain", "shop", "--path", "user/path=/pay", "--outcome", "within", "--from", "-2d",
		"--admin", historyPort(t, store))
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
