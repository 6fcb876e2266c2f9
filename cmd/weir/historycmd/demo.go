package historycmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/demo"
	"github.com/weirproxy/weir/backend/history/transfer"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/terminal"
)

type demoCommand struct {
	Days  int    `default:"400" placeholder:"N" help:"How many days to make up, 1 to 3650."`
	Until Moment `placeholder:"T" help:"Where to end, as --to of weir history show; now unless given."`
}

func (*demoCommand) Help() string {
	return `Makes up a year of a small shop and its mail, in the history that the environment names: Redis, or the file in DATA_DIR,
while no weir serve has it. The store must be empty. There are days and nights, weekends and growth, an attack on paying
12 days before the end, a quarter of an hour without a store, a rule on trial, and customers that run over their limits.
The same --until and --days make the same hits. The rules that they are of are written to demo-config in DATA_DIR.

    DATA_DIR=/tmp/demo weir history demo
    DATA_DIR=/tmp/demo weir serve --config /tmp/demo/demo-config

Exit code: 0, or 2 if it failed.`
}

func (c *demoCommand) Run(ctx context.Context, out terminal.Output) error {
	begin := time.Now()
	until := begin
	if c.Until != "" {
		at, err := history.ParseMoment(string(c.Until), begin, out.Zone)
		if err != nil {
			return fmt.Errorf("history: --until: %w", err)
		}
		if until = time.Unix(at, 0); until.After(begin) {
			return fmt.Errorf("history: --until: %s is in the future: a history ends now at the latest", c.Until)
		}
	}
	set, err := config.Read(config.Process())
	if err != nil {
		return failed(err)
	}
	show := progress(set.Logger(out.Err))
	loaded, err := load(ctx, &set, func(to transfer.Target) (transfer.Loaded, error) {
		l := transfer.NewLoader(ctx, to, fmt.Sprintf("demo-%d-%d", until.Unix(), c.Days))
		err := checkEmpty(ctx, to.Store)
		if err == nil {
			err = demo.Buckets(until, c.Days, set.History.Keep(), func(id history.ID, bucket history.Point) error {
				show(func() string { return describeRows(l.Loaded()) })
				return l.Add(transfer.Row{ID: id, Start: bucket.Start, Width: bucket.Tier.Width(), Sum: bucket.Sum, Peak: bucket.Peak})
			})
		}
		if err != nil {
			return l.Loaded(), err
		}
		return l.Close()
	})
	if err != nil {
		return failed(err)
	}
	rules, _ := fs.Sub(demo.Config, "config") // it is there
	dir := filepath.Join(set.DataDir, "demo-config")
	if err := os.CopyFS(dir, rules); err != nil && !errors.Is(err, fs.ErrExist) {
		return failed(fmt.Errorf("the rules of the demo: %w", err))
	}
	_, err = fmt.Fprintf(out.Out, `Made up %d days until %s in %s, in %s: %s hits.

  weir serve --config %s    with the same environment; then open http://127.0.0.1:%d/
  weir history top --from -7d
  weir history show --domain shop --path user/path=/pay --from -30d
`, c.Days, until.In(out.Zone).Format("2006-01-02 15:04 MST"), time.Since(begin).Round(100*time.Millisecond),
		terminal.Printable(storeName(&set)), terminal.Thousands(loaded.Hits), terminal.Printable(dir), set.DebugPort)
	return err
}

// checkEmpty returns an error that names a series of the store, if it has any.
func checkEmpty(ctx context.Context, store history.Store) error {
	return store.Query(ctx, history.Query{From: 0, To: 1}, func(s history.Series) error {
		name := s.ID.Outcome.String() + " hits of " + readable(s.ID.Domain, s.ID.Path, s.ID.Value)
		if s.Unnamed {
			name = "a damaged series"
		}
		return fmt.Errorf("this history is not empty: it holds %s. Made-up hits never stand beside counted ones: "+
			"name an empty folder as DATA_DIR, or a Redis without a history. A demo that was interrupted can be deleted", name)
	})
}
