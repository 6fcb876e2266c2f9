package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // images without a folder of time zones can answer for local days too

	"github.com/alecthomas/kong"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/admin"
)

// historyCmd shows what became of hits over time.
type historyCmd struct {
	Show   historyShowCmd   `cmd:"" help:"Draw the hits of a rule over time."`
	Top    historyTopCmd    `cmd:"" help:"List the rules with the most hits."`
	Verify historyVerifyCmd `cmd:"" help:"Prove that the history holds, to the integer, all that was counted."`
}

// Help is what weir history --help shows below the first sentence.
func (*historyCmd) Help() string {
	return `Opens the Redis that the environment names, as weir serve reads it. A history that is not in Redis belongs to its
weir serve, which is asked on its admin port; with --admin that is so in any case.

    weir history top    --from -24h --by over
    weir history show   --domain shop --path user/path=/pay --from -30d
    weir history verify

A time is -90m, -12h, -30d or -2w before now, RFC 3339 (2026-11-21T12:00:00Z), or Unix seconds. Older hits are kept in
wider buckets, and a range is widened to whole ones, so all sums are exact. --json prints what GET /api/v1/history
answers. A series some of which cannot be read is left out and named in a warning, with the key at fault; the others are
shown. Exit code: 0, 2 for an error, and 1 if a series that was asked for cannot be read or, for verify, is not exact.`
}

// exitUnreadable is what weir history show and top end with if a series that was asked for cannot be read: what they
// have shown is not all.
const exitUnreadable exitCode = 1

// historyTarget is what all three take: whom to ask, about what, and how to show it.
type historyTarget struct {
	Domain  string        `placeholder:"NAME" help:"Only rules of this domain."`
	Path    string        `placeholder:"K=V/K=V" help:"Only this rule, by its path."`
	Admin   string        `placeholder:"HOST:PORT" help:"Ask the weir with this admin port; without a Redis, 127.0.0.1:6070."`
	Timeout time.Duration `default:"60s" help:"How long to wait for the answer."`
	JSON    bool          `name:"json" help:"Print the answer as JSON."`

	stdout io.Writer      `kong:"-"` // nil: the process's
	zone   *time.Location `kong:"-"` // of the times shown; nil: local
}

// historyRange is the range of time that show and top take.
type historyRange struct {
	From historyTime `placeholder:"T" help:"Where to begin; an hour before --to unless given."`
	To   historyTime `placeholder:"T" help:"Where to end; now unless given."`
}

// historyTime is a time as the API takes it.
type historyTime string

// Decode takes the next argument, which unlike the values of other flags may begin with a hyphen: -30d.
func (m *historyTime) Decode(ctx *kong.DecodeContext) error {
	token := ctx.Scan.Pop()
	text, isText := token.Value.(string)
	if !isText || text == "" || strings.HasPrefix(text, "--") {
		return errors.New("a time is missing, such as -30d")
	}
	*m = historyTime(text)
	return nil
}

// ask asks for what GET /api/v1/history/path answers to the parameters, of which empty ones are left out. With --json
// the answer is printed and into is left as it is; printed says so.
func (c *historyTarget) ask(ctx context.Context, path string, parameters map[string]string, into any) (
	printed bool, err error) {
	values := url.Values{}
	parameters["domain"], parameters["path"] = c.Domain, c.Path
	for name, value := range parameters {
		if value != "" {
			values.Set(name, value)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	body, err := c.fetch(ctx, path, values)
	if err != nil {
		return false, fmt.Errorf("history: %s", printable(err.Error()))
	}
	if err := json.Unmarshal(body, into); err != nil {
		return false, fmt.Errorf("history: the answer is not what weir answers: %w", err)
	}
	if c.JSON {
		_, err = c.out().Write(body)
		return true, err
	}
	return false, nil
}

func (c *historyTarget) fetch(ctx context.Context, path string, values url.Values) ([]byte, error) {
	if c.Admin == "" {
		set, err := readSettings(programOf(os.Args[0]))
		if err != nil {
			return nil, err
		}
		if set.historyInRedis() {
			return c.fetchRedis(ctx, &set, path, values)
		}
		body, err := c.fetchPort(ctx, "127.0.0.1:6070", path, values)
		if errors.Is(err, syscall.ECONNREFUSED) {
			err = fmt.Errorf("%w (the environment names no Redis; --admin says where weir serve is)", err)
		}
		return body, err
	}
	return c.fetchPort(ctx, c.Admin, path, values)
}

func (c *historyTarget) fetchPort(ctx context.Context, address, path string, values url.Values) ([]byte, error) {
	if err := checkPort(address, c.Timeout); err != nil {
		return nil, err
	}
	where := url.URL{Scheme: "http", Host: address, Path: "/api/v1/history" + path, RawQuery: values.Encode()}
	request, err := http.NewRequest(http.MethodGet, where.String(), nil)
	if err != nil {
		return nil, err
	}
	return askPort(ctx, c.Timeout, request)
}

// fetchRedis answers as the admin port does, from the store itself.
func (c *historyTarget) fetchRedis(ctx context.Context, set *settings, path string, values url.Values) ([]byte, error) {
	// What a server lacks to keep a history is for the log of weir serve; what keeps it from being read is an error
	// here.
	store, end, err := openHistoryStore(ctx, set, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	h := admin.NewHistory(store, time.Now)
	answer := map[string]func(context.Context, io.Writer, url.Values) error{
		"": h.Show, "/top": h.Top, "/verify": h.Verify}[path]
	var body bytes.Buffer
	if err := errors.Join(answer(ctx, &body, values), end()); err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

func (c *historyTarget) out() io.Writer {
	if c.stdout != nil {
		return c.stdout
	}
	return os.Stdout
}

func (c *historyTarget) local() *time.Location {
	if c.zone != nil {
		return c.zone
	}
	return time.Local
}

// complete is nil if all series that were asked for could be read.
func complete(unreadable int) error {
	if unreadable > 0 {
		return exitUnreadable
	}
	return nil
}

// warn appends a line for each warning.
func warn(b *strings.Builder, warnings []string, p paint) {
	for _, warning := range warnings {
		fmt.Fprintln(b, p.yellow(printable(warning)))
	}
}

// nothing is the error of a question that no series fits.
func (c *historyTarget) nothing(more ...string) error {
	asked := []string{}
	for _, part := range append([]string{"domain", c.Domain, "path", c.Path}, more...) {
		asked = append(asked, printable(part))
	}
	var about strings.Builder
	for i := 0; i < len(asked); i += 2 {
		if asked[i+1] != "" {
			fmt.Fprintf(&about, " %s %s", asked[i], asked[i+1])
		}
	}
	if about.Len() == 0 {
		return errors.New("history: there is no history yet; it comes within 15 seconds of a hit, unless HISTORY=false")
	}
	return fmt.Errorf("history: no history for%s; weir history top lists what there is", &about)
}

// readable is a series' name as people are shown it.
func readable(domain, path, value string) string {
	name := printable(domain) + " " + printable(descriptors.ReadablePath(path))
	if value != "" {
		name += " value " + printable(value)
	}
	return name
}

// describeRange is a range in words: 2026-11-21 11:00 to 12:01 UTC (1h 1m).
func describeRange(from, to int64, zone *time.Location) string {
	begin, end := time.Unix(from, 0).In(zone), time.Unix(to, 0).In(zone)
	layout := "2006-01-02 15:04 MST"
	if begin.Format(time.DateOnly) == end.Format(time.DateOnly) {
		layout = "15:04 MST"
	}
	return fmt.Sprintf("%s to %s (%s)", begin.Format("2006-01-02 15:04"), end.Format(layout), span(to-from))
}

// thousands writes 1234567 as 1,234,567.
func thousands(n uint64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
