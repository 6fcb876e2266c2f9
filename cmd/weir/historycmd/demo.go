package historycmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/demo"
	"github.com/weirproxy/weir/backend/history/transfer"
	"github.com/weirproxy/weir/cmd/weir/callcmd"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/cmd/weir/wait"
	"github.com/weirproxy/weir/descriptors"
)

type demoCommand struct {
	Days  int    `default:"400" placeholder:"N" help:"How many days to make up, 1 to 3650."`
	Until Moment `placeholder:"T" help:"Where to end, as --to of weir history show; by default now."`
	terminal.ProgressFlag
	Serve bool `help:"Make up what is missing until now, then serve it as weir serve does, and send it the requests of the shop's Envoys."`
}

// ServeFunc serves with the descriptor files in a directory, as weir serve does, until ctx ends.
type ServeFunc func(ctx context.Context, dir string) error

func (*demoCommand) Help() string {
	return `Makes up a year of a small shop and its mail, in an empty history that the environment names: Redis, or the file in
DATA_DIR, while no weir serve has it. The rules that the hits are of are written to demo-config in DATA_DIR.

    DATA_DIR=/tmp/demo weir history demo --serve     goes on counting until Ctrl-C; then open http://127.0.0.1:6070/

Exit code: 0, or 2 if it failed.`
}

func (c *demoCommand) Run(ctx context.Context, out terminal.Output, serve ServeFunc) error {
	settings, err := config.Read(config.Process())
	if err == nil {
		err = c.generate(ctx, &settings, out)
	}
	if err != nil || !c.Serve {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var sending sync.WaitGroup
	sending.Go(func() { sendRequests(ctx) })
	err = serve(ctx, configDir(&settings))
	cancel()
	sending.Wait()
	return err
}

// sendRequests sends the requests of the shop's Envoys to the weir of the environment, every second, until ctx ends.
func sendRequests(ctx context.Context) {
	weir := callcmd.Command{Addr: config.GRPCAddress(), Hits: 1, Timeout: time.Second}
	for wait.For(ctx, time.Until(time.Now().Truncate(time.Second).Add(time.Second))) {
		demo.Requests(time.Now(), func(domain string, d descriptors.Descriptor) {
			weir.Domain = domain
			_, _ = weir.Ask(ctx, []descriptors.Descriptor{d}) // weir logs its own failures
		})
	}
}

// configDir returns the directory of a demo's rules. They are written last, so if they exist the demo is complete.
func configDir(settings *config.Settings) string {
	return filepath.Join(settings.DataDir, "demo-config")
}

// generate fills the history, writes the rules, and prints a summary.
func (c *demoCommand) generate(ctx context.Context, settings *config.Settings, out terminal.Output) error {
	begin := time.Now()
	until, err := c.end(begin, out.Zone)
	if err != nil {
		return err
	}
	first, err := demo.Since(until, c.Days)
	if err != nil {
		return err
	}
	_, missing := os.Stat(configDir(settings))
	again := c.Serve && missing == nil && !settings.HistoryInRedis() // a history in Redis may not be a demo's
	progress, stop := c.Start(out.Err, "days")
	defer stop()
	loaded, err := load(settings, func(to transfer.Target) (loaded transfer.LoadResult, err error) {
		if first, err = resume(ctx, to.Store, first, until, again); err != nil {
			return loaded, err
		}
		l := transfer.NewLoader(ctx, to, fmt.Sprintf("demo-%d-%d", until.Unix(), c.Days))
		for since := first; until.Sub(since) >= time.Minute; {
			progress.Total.Store(int64(until.Sub(first).Hours() / 24))
			err = demo.Buckets(since, until, settings.History.RetentionByTier(), func(id history.ID, b history.Point) error {
				progress.Done.Store((b.Start - first.Unix()) / history.Day)
				return l.Add(transfer.Row{ID: id, Start: b.Start, Width: b.Tier.Width(), Sum: b.Sum, Peak: b.Peak})
			})
			if err != nil {
				return loaded, err
			}
			if since = until; c.Serve {
				until = time.Now() // generating a year takes minutes
			}
		}
		return l.Close()
	})
	if err != nil {
		return err
	}
	rules, _ := fs.Sub(demo.Config, "config") // it is embedded
	if err := os.CopyFS(configDir(settings), rules); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("the rules of the demo: %w", err)
	}
	_, err = fmt.Fprintf(out.Out, "Made up %s until %s in %s, in %s: %s hits.\n%s", terminal.FormatSeconds(until.Unix()-first.Unix()),
		until.In(out.Zone).Format("2006-01-02 15:04 MST"), time.Since(begin).Round(100*time.Millisecond),
		descriptors.Printable(storeName(settings)), terminal.Thousands(loaded.Hits), c.nextSteps(settings))
	return err
}

// resume returns where to begin to generate: at first in an empty history, at the end of the last hit in a demo that is
// served again. It returns an error for any other history.
func resume(ctx context.Context, store history.Store, first, until time.Time, again bool) (time.Time, error) {
	err := store.Query(ctx, history.Query{To: until.Unix()}, func(s history.Series) error {
		if !again {
			return errNotEmpty
		}
		for _, p := range s.Points {
			first = time.Unix(max(first.Unix(), p.End()), 0)
		}
		return s.Err
	})
	return first, err
}

// nextSteps returns instructions for using the demo.
func (c *demoCommand) nextSteps(settings *config.Settings) string {
	if c.Serve {
		return fmt.Sprintf("It goes on until Ctrl-C: open http://127.0.0.1:%d/\n", settings.DebugPort)
	}
	return fmt.Sprintf(`
  weir serve --config %s    with the same environment; then open http://127.0.0.1:%d/
  weir history top --from -7d
  weir history show --domain shop --path user/path=/pay --from -30d
`, descriptors.Printable(configDir(settings)), settings.DebugPort)
}

// end returns where the demo's hits end.
func (c *demoCommand) end(now time.Time, zone *time.Location) (time.Time, error) {
	if c.Until == "" {
		return now, nil
	}
	at, err := history.ParseMoment(string(c.Until), now, zone)
	if err != nil {
		return now, fmt.Errorf("--until: %w", err)
	}
	if at > now.Unix() {
		return now, fmt.Errorf("--until: %s is in the future: a history ends now at the latest", c.Until)
	}
	return time.Unix(at, 0), nil
}

var errNotEmpty = errors.New("this history is not empty, and made-up hits never stand beside counted ones: name an empty folder as " +
	"DATA_DIR, or a Redis without a history. A demo that was interrupted can be deleted")
