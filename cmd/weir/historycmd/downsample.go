package historycmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// Downsample moves what is old in the history to coarser tiers.
type Downsample struct {
	Once   bool `help:"Run once and end."`
	DryRun bool `help:"Only say what would be done."`
}

// Help returns what weir downsample --help shows below the first sentence.
func (*Downsample) Help() string {
	return `For a CronJob beside weirs that keep their history in the Redis of this environment: minutes become 5 minutes after
a day, hours after a week, days after a month, and what is older than the retention is dropped. Each move is one atomic
step: the command may be stopped or killed anywhere, run again, and run several times at once, and no hit is lost or
counted twice. A history that is not in Redis needs no CronJob: its weir serve does it. Exit code: 0, or 2 if it failed
or was stopped.`
}

// Run does it once, and reports.
func (c *Downsample) Run(ctx context.Context, out terminal.Output) error {
	if !c.Once {
		return errors.New("give --once and run it regularly, from a CronJob; " +
			"or let weir serve do it all the time, with HISTORY_DOWNSAMPLE=true")
	}
	set, err := config.Read(config.Process())
	if err != nil {
		return err
	}
	if !set.HistoryInRedis() {
		return errors.New("the environment names no Redis, and a history outside Redis belongs to its weir " +
			"serve, which downsamples it by itself unless HISTORY_DOWNSAMPLE=false")
	}
	log := set.Logger(out.Err)
	store, err := openRedis(ctx, &set, log)
	if err != nil {
		return err
	}
	return errors.Join(c.roll(ctx, store, out.Out, progress(log)), store.Close())
}

// roll runs the job and reports to out, also of a job that ended early.
func (c *Downsample) roll(ctx context.Context, store history.Store, out io.Writer, show func(func() string)) error {
	begin := time.Now()
	rolled, err := store.Roll(ctx, history.Job{Now: begin, DryRun: c.DryRun, Progress: func(done history.RollResult) {
		show(func() string {
			chunks, points := done.Sum()
			return fmt.Sprintf("%d of %d partitions, %s chunks, %s points", done.Partitions, history.Partitions,
				terminal.Thousands(chunks), terminal.Thousands(points))
		})
	}})
	if _, failed := io.WriteString(out, describeRolled(rolled, c.DryRun, time.Since(begin))); failed != nil {
		return errors.Join(err, failed)
	}
	if ctx.Err() != nil {
		return errors.New("stopped before the end; nothing is lost, and the next run goes on from here")
	}
	return err
}

// describeRolled returns what a run did, or would do, over several lines.
func describeRolled(r history.RollResult, dry bool, took time.Duration) string {
	var b strings.Builder
	moved := "moved"
	if dry {
		moved = "would move"
	}
	fmt.Fprintf(&b, "Looked at %d of %d partitions in %s; %s %d series.\n", r.Partitions, history.Partitions,
		took.Round(time.Millisecond), moved, r.Series)
	for t := history.Minutes; t <= history.Days; t++ {
		if r.Chunks[t] == 0 && r.Points[t] == 0 {
			continue
		}
		to := "expired"
		if t < history.Days {
			to = "to " + (t + 1).String()
		}
		fmt.Fprintf(&b, "  %s %-7s  %s chunks, %s points\n", t, to, terminal.Thousands(r.Chunks[t]), terminal.Thousands(r.Points[t]))
	}
	if r.Expired > 0 {
		fmt.Fprintf(&b, "  %s hits are past the retention; lifetime totals keep them\n", terminal.Thousands(r.Expired))
	}
	if r.Forgotten > 0 {
		fmt.Fprintf(&b, "  %s positions of writers that have long gone are forgotten\n", terminal.Thousands(r.Forgotten))
	}
	return b.String()
}
