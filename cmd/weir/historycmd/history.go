// Package historycmd is weir history, which shows what became of hits over time, and weir downsample.
package historycmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // images without a folder of time zones can answer for local days too

	"github.com/alecthomas/kong"

	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/cmd/weir/adminport"
	"github.com/weirproxy/weir/cmd/weir/settings"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/server/curves"
)

// Command shows what became of hits over time.
type Command struct {
	Show   showCommand   `cmd:"" help:"Draw the hits of a rule over time."`
	Top    topCommand    `cmd:"" help:"List the rules with the most hits."`
	Verify verifyCommand `cmd:"" help:"Prove that the history holds, to the integer, all that was counted."`
}

// Help returns what weir history --help shows below the first sentence.
func (*Command) Help() string {
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

// target is what all three have: whom to ask, about what, and how to show it.
type target struct {
	Domain  string        `placeholder:"NAME" help:"Only rules of this domain."`
	Path    string        `placeholder:"K=V/K=V" help:"Only this rule, by its path."`
	Admin   string        `placeholder:"HOST:PORT" help:"Ask the weir with this admin port; without a Redis, 127.0.0.1:6070."`
	Timeout time.Duration `default:"60s" help:"How long to wait for the answer."`
	JSON    bool          `name:"json" help:"Print the answer as JSON."`
}

// period is the range of time of show and top.
type period struct {
	From moment `placeholder:"T" help:"Where to begin; an hour before --to unless given."`
	To   moment `placeholder:"T" help:"Where to end; now unless given."`
}

type moment string

// Decode reads the next argument, which unlike the values of other flags may begin with a hyphen: -30d.
func (m *moment) Decode(ctx *kong.DecodeContext) error {
	token := ctx.Scan.Pop()
	text, isText := token.Value.(string)
	if !isText || text == "" || strings.HasPrefix(text, "--") {
		return errors.New("a time is missing, such as -30d")
	}
	*m = moment(text)
	return nil
}

type answer interface{ WriteJSON(io.Writer) error }

// ask returns the answer to a question about the rules of a target: of the Redis that the environment names, or else of
// an admin port, at a path below /api/v1/history. With --json it prints the answer too, as the port gives it.
func ask[Answer answer](ctx context.Context, c *target, out io.Writer, as settings.Program, q curves.Question,
	path string, show func(*curves.History, context.Context, curves.Question) (Answer, error)) (a Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	q.Domain, q.Path = c.Domain, c.Path
	address := c.Admin
	if address == "" {
		set, err := settings.Read(as)
		if err != nil {
			return a, failed(err)
		}
		if set.HistoryInRedis() {
			// What a server lacks to keep a history is for the log of weir serve; what keeps it from being read is an error.
			store, err := openRedis(ctx, &set, slog.New(slog.DiscardHandler))
			if err != nil {
				return a, failed(err)
			}
			a, err = show(curves.NewHistory(store, time.Now), ctx, q)
			if err = errors.Join(err, store.Close()); err != nil {
				return a, failed(err)
			}
			if c.JSON {
				err = a.WriteJSON(out)
			}
			return a, err
		}
		address = "127.0.0.1:6070"
	}
	port := adminport.Port{Address: address, Timeout: c.Timeout}
	body, err := port.Ask(ctx, http.MethodGet, "/api/v1/history"+path, parameters(&q, path))
	if c.Admin == "" && errors.Is(err, syscall.ECONNREFUSED) {
		err = fmt.Errorf("%w (the environment names no Redis; --admin says where weir serve is)", err)
	}
	if err != nil {
		return a, failed(err)
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return a, fmt.Errorf("history: the answer is not what weir answers: %w", err)
	}
	if c.JSON {
		_, err = out.Write(body)
	}
	return a, err
}

func failed(err error) error { return fmt.Errorf("history: %s", terminal.Printable(err.Error())) }

// parameters returns a question as the admin port is asked. What is left open is left out.
func parameters(q *curves.Question, path string) url.Values {
	values := url.Values{}
	for name, value := range map[string]string{"domain": q.Domain, "path": q.Path, "value": q.Value, "outcome": q.Outcome,
		"from": q.From, "to": q.To, "tz": q.Zone, "by": q.By} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if q.Points != 0 {
		values.Set("points", strconv.Itoa(q.Points))
	}
	if path == "/top" {
		values.Set("n", strconv.Itoa(q.Rows))
	}
	return values
}

// openRedis opens the history in the Redis that the environment names. Its error says why servers cannot keep one.
func openRedis(ctx context.Context, set *settings.Settings, log *slog.Logger) (*redishistory.Store, error) {
	store, err := redishistory.Open(set.RedisHistory(log))
	if err == nil {
		if err = store.Check(ctx); err == nil {
			return store, nil
		}
		err = errors.Join(err, store.Close())
	}
	return nil, fmt.Errorf("opening the history: %w", err)
}

// sound returns nil if no series was found broken: unreadable, so that what was shown is not all, or not exact.
func sound(broken int) error {
	if broken > 0 {
		return terminal.No
	}
	return nil
}

func warn(b *strings.Builder, warnings []string, p terminal.Paint) {
	for _, warning := range warnings {
		fmt.Fprintln(b, p.Yellow(terminal.Printable(warning)))
	}
}

// nothing returns the error of a question that no series fits.
func (c *target) nothing(more ...string) error {
	about := ""
	asked := append([]string{"domain", c.Domain, "path", c.Path}, more...)
	for i := 0; i < len(asked); i += 2 {
		if asked[i+1] != "" {
			about += " " + asked[i] + " " + terminal.Printable(asked[i+1])
		}
	}
	if about == "" {
		return errors.New("history: there is no history yet; it comes within 15 seconds of a hit, unless HISTORY=false")
	}
	return fmt.Errorf("history: no history for%s; weir history top lists what there is", about)
}

// readable returns a series' name as people are shown it.
func readable(domain, path, value string) string {
	return terminal.Printable(curves.ReadableName(domain, path, value))
}

// describeRange returns a range in words: 2026-11-21 11:00 to 12:01 UTC (1h 1m).
func describeRange(from, to int64, zone *time.Location) string {
	begin, end := time.Unix(from, 0).In(zone), time.Unix(to, 0).In(zone)
	layout := "2006-01-02 15:04 MST"
	if begin.Format(time.DateOnly) == end.Format(time.DateOnly) {
		layout = "15:04 MST"
	}
	return fmt.Sprintf("%s to %s (%s)", begin.Format("2006-01-02 15:04"), end.Format(layout), terminal.Span(to-from))
}
