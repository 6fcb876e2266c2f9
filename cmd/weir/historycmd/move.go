package historycmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
)

type moveCommand struct {
	To     string   `required:"" placeholder:"NODES" help:"All nodes of the ring afterwards, as REDIS_HISTORY_URL names them."`
	Lost   []string `placeholder:"NODE" help:"Nodes that are gone for good: their partitions begin empty, and their hits are lost."`
	DryRun bool     `help:"Only say what would move, how much that is, and how long it takes."`
	JSON   bool     `name:"json" help:"Print the result as JSON."`
	terminal.ProgressFlag
}

func (*moveCommand) Help() string {
	return `Brings each of the 256 partitions of a history on a ring to its node of the new list, by rendezvous hashing: a node that
is added takes its share and nothing else moves, one that is left out gives all away. Weirs count and read meanwhile, and
follow by themselves. It may be stopped or killed anywhere; the same command goes on from there, after half a minute.

    weir history move --to redis-1:6379,redis-2:6379,redis-3:6379 --dry-run
    weir history move --to redis-1:6379,redis-2:6379,redis-3:6379

Afterwards name the same nodes in REDIS_HISTORY_URL. Exit code: 0, or 2 if it failed or was stopped.`
}

func (c *moveCommand) Run(ctx context.Context, out terminal.Output) error {
	settings, err := config.Read(config.Process())
	if err != nil {
		return err
	}
	if !settings.HistoryInRedis() {
		return errors.New("the environment names no Redis: set REDIS_HISTORY_URL to the nodes that the history is on, and REDIS_TYPE=ring")
	}
	opened, err := settings.RedisHistory(settings.Logger(out.Err))
	if err != nil {
		return err
	}
	if opened.Redis.Type != topology.Ring {
		return fmt.Errorf("REDIS_TYPE is %s, and only the history on a ring is moved (REDIS_TYPE=ring): a Redis Cluster moves slots "+
			"by itself, and a single server or one with sentinels has nothing to share out", cmp.Or(opened.Redis.Type, topology.Single))
	}
	opened.Moves, opened.ReadOnly = true, c.DryRun
	store, err := redishistory.Open(opened)
	if err != nil {
		return fmt.Errorf("%s: %w", cmp.Or(settings.HistoryVariable(), "REDIS_URL"), err)
	}
	progress, stop := c.Start(out.Err, "partitions")
	store.OnPlan = func(partitions int) { progress.Total.Store(int64(partitions)) }
	store.OnVisit = func() { progress.Done.Add(1) }
	machine, _ := os.Hostname()
	begin := time.Now()
	result, err := store.Move(ctx, redishistory.MoveConfig{To: c.To, Lost: c.Lost, DryRun: c.DryRun, Machine: machine})
	stop()
	if ctx.Err() != nil {
		err = errors.New("stopped before the end; nothing is lost, and the same command goes on from here")
	}
	err = errors.Join(err, store.Close())
	if err != nil && !slices.ContainsFunc(result.Partitions, func(one redishistory.MovedPartition) bool { return one.Moved }) {
		return err
	} else if c.JSON {
		return errors.Join(err, terminal.WriteJSON(out.Out, result))
	}
	text := c.describe(&result, time.Since(begin))
	if err == nil && !c.DryRun {
		text += fmt.Sprintf("Now set REDIS_HISTORY_URL=%s\n", descriptors.Printable(strings.Join(result.Nodes, ",")))
	}
	_, failed := io.WriteString(out.Out, text)
	return errors.Join(err, failed)
}

const lostMark = "  LOST"

// describe lists the partitions that were or would be moved, with a line for each pair of nodes.
func (c *moveCommand) describe(r *redishistory.MoveResult, took time.Duration) string {
	if len(r.Partitions) == 0 {
		return "Nothing to move.\n"
	}
	type sum struct {
		partitions    int
		series, bytes uint64
	}
	pairs := make(map[string]sum)
	var all sum
	lost := 0
	for _, one := range r.Partitions {
		if !one.Moved && !c.DryRun {
			continue
		}
		name := one.From + " → " + one.To
		if one.Lost {
			name += lostMark
			lost++
		}
		s := pairs[name]
		pairs[name] = sum{s.partitions + 1, s.series + one.Series, s.bytes + one.Bytes}
		all = sum{all.partitions + 1, all.series + one.Series, all.bytes + one.Bytes}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		s, content := pairs[name], ""
		if !strings.HasSuffix(name, lostMark) { // the hits of a lost node are unknown
			content = fmt.Sprintf(", %s series, %.1f MB", terminal.Thousands(s.series), float64(s.bytes)/1e6)
		}
		fmt.Fprintf(&b, "%s  %s%s\n", descriptors.Printable(name), terminal.Count(s.partitions, "partition"), content)
	}
	verb, end := "Moved", fmt.Sprintf("in %s; the table has version %d", took.Round(time.Millisecond), r.Version)
	if c.DryRun {
		verb, end = "Would move", fmt.Sprintf("in about %s, at the speed of a sample", terminal.FormatSeconds(int64(r.Expected.Seconds())+1))
	}
	fmt.Fprintf(&b, "%s %d of %d partitions with %s series, %.1f MB, %s.\n", verb, all.partitions, history.Partitions,
		terminal.Thousands(all.series), float64(all.bytes)/1e6, end)
	if lost > 0 {
		fmt.Fprintf(&b, "%s of lost nodes: HITS THAT WERE COUNTED THERE ARE LOST.\n", terminal.Count(lost, "partition"))
	}
	if left := len(r.Partitions) - all.partitions; left > 0 {
		fmt.Fprintf(&b, "%s left to move.\n", terminal.Count(left, "partition"))
	}
	return b.String()
}
