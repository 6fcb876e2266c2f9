package historycmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// Downsample moves old points of the history to coarser tiers.
type Downsample struct {
	Once   bool `help:"No effect: the command always runs once."`
	DryRun bool `help:"Only count the series that are due."`
	terminal.ProgressFlag
}

// Help returns what weir downsample --help shows below the first sentence.
func (*Downsample) Help() string {
	return `For a CronJob beside weirs that keep their history in the Redis of this environment: buckets of a minute become 5
minutes after a day, then hours after a week and days after a month; days older than the retention are dropped. Each
step is atomic: the command may be stopped or killed anywhere, run again, and run several times at once, and no hit is lost or
counted twice. A history that is not in Redis needs no CronJob: its weir serve does it. Exit code: 0, or 2 if it failed
or was stopped.`
}

// Run downsamples once, and prints a report.
func (c *Downsample) Run(ctx context.Context, out terminal.Output) error {
	settings, err := config.Read(config.Process())
	if err != nil {
		return err
	}
	if !settings.HistoryInRedis() {
		return errors.New("the environment names no Redis, and a history outside Redis belongs to its weir " +
			"serve, which downsamples it by itself unless HISTORY_DOWNSAMPLE=false")
	}
	store, err := OpenRedis(&settings, settings.Logger(out.Err), false)
	if err != nil {
		return err
	}
	progress, stop := c.Start(out.Err, "partitions")
	progress.Total.Store(history.Partitions)
	store.OnVisit = func() { progress.Done.Add(1) }
	err = c.downsample(ctx, store, out.Out)
	stop()
	return errors.Join(err, store.Close())
}

// downsample runs the job, and prints a report even if the job ended early.
func (c *Downsample) downsample(ctx context.Context, store *redishistory.Store, out io.Writer) error {
	begin := time.Now()
	work := store.Downsample
	if c.DryRun {
		work = store.Due
	}
	did, err := work(ctx, begin)
	text := fmt.Sprintf("Looked at %d of %d partitions: %s series are due.\n", did.Partitions, history.Partitions,
		terminal.Thousands(did.Series))
	if !c.DryRun {
		text = fmt.Sprintf("Looked at %d of %d partitions in %s, and moved %s series: %s chunks with %s points. %s hits have expired.\n",
			did.Partitions, history.Partitions, time.Since(begin).Round(time.Millisecond), terminal.Thousands(did.Series),
			terminal.Thousands(did.Chunks), terminal.Thousands(did.Points), terminal.Thousands(did.Expired))
	}
	if _, failed := io.WriteString(out, text); failed != nil {
		return errors.Join(err, failed)
	}
	if ctx.Err() != nil {
		return errors.New("stopped before the end; nothing is lost, and the next run goes on from here")
	}
	return err
}
