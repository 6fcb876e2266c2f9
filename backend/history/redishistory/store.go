// Package redishistory stores the history of hits in Redis servers: a single one, a primary with sentinels, a cluster,
// or a ring.
//
// Each partition has its own hash tag, so that one script can change a series and its writer's position. Every key is
// declared, so that no script sees half of a slot migration. FORMAT.md describes the layout. All scripts may run twice:
// batches have numbers, and changes of chunks are bound to a version of the series.
package redishistory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// format is the version of the layout, see FORMAT.md.
const format = "1"

// ErrFormat is wrapped by errors about a history in a format that this version of weir does not know.
var ErrFormat = errors.New("the history is in another format")

// ErrDamaged is wrapped by errors that name a key whose content weir did not write.
var ErrDamaged = errors.New("the history is damaged")

// ErrMoving is wrapped by errors about a partition that is being moved to another node.
var ErrMoving = errors.New("it is being moved to another node")

// Config configures a store.
type Config struct {
	// Redis configures the connections to the servers. The nodes of a ring are always fixed, and NodeLoss is not used.
	Redis topology.Config
	// Now, if not nil, replaces the servers' clock, in tests. It returns the time in decimal microseconds.
	Now func() string
	// Retention is history.DefaultRetention() by default.
	Retention history.Retention
	// Pace is the share of time for which a job may keep a server busy, above 0 and at most 1. It is a quarter by default,
	// as the server may also answer requests; tests set it.
	Pace float64
	// ReadOnly makes a store that only reads, with fewer rights: Apply and Downsample fail. It does not probe the servers.
	ReadOnly bool
	// Moves makes a store for Move. Its errors name the further rights that Move needs.
	Moves bool
	// Step, if not nil, is called before and after each change of a server, by the goroutine of Apply, Downsample or Move,
	// in tests.
	Step func(name string)
}

// Store is a [history.Store] in Redis.
type Store struct {
	// OnVisit, if not nil, is called after each partition that Downsample, Due or Move has visited. Set it before.
	OnVisit func()
	// OnPlan, if not nil, is called by Move with the number of partitions that it will move.
	OnPlan func(partitions int)

	c       Config // with its defaults
	servers *topology.Servers
	scripts scripts
	log     *slog.Logger

	ring    ring
	pinned  *route                      // in a mover's store, the node that it reads, else nil
	renew   func(context.Context) error // in a mover's store, renews the mover's locks before each read
	probed  [history.Partitions]atomic.Bool
	stop    context.CancelFunc
	polling sync.WaitGroup
}

var _ history.Store = (*Store)(nil)

// Open makes a store. It checks the configuration, and does not wait for servers. The first batch or job in each
// partition probes whether its server can store a history.
func Open(c Config) (*Store, error) {
	c.Retention = cmp.Or(c.Retention, history.DefaultRetention())
	if err := c.Retention.Check(); err != nil {
		return nil, fmt.Errorf("history in redis: %w", err)
	}
	c.Pace = cmp.Or(c.Pace, 0.25)
	c.Redis.Log = cmp.Or(c.Redis.Log, slog.Default())
	if c.Now == nil {
		c.Now = func() string { return "" }
	}
	if c.Step == nil {
		c.Step = func(string) {}
	}
	needed := rights
	if c.ReadOnly {
		needed = readingRights
	}
	if c.Moves {
		needed += movingRights
	}
	c.Redis.Fixed = true
	servers, err := topology.Connect(c.Redis, needed)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{c: c, servers: servers, scripts: newScripts(), log: c.Redis.Log, stop: stop}
	s.ring.names = slices.Sorted(slices.Values(servers.Nodes())) // nil if there is no ring
	if !s.c.ReadOnly {
		s.polling.Go(func() { s.pollServers(ctx) })
	}
	return s, nil
}

// Close ends all connections.
func (s *Store) Close() error {
	s.stop()
	s.polling.Wait()
	return s.servers.Close()
}

// errReadOnly is the error of Apply and Downsample in a store that only reads.
var errReadOnly = errors.New("this history is open for reading only")

// readyTimeout is the timeout of Ready.
const readyTimeout = 5 * time.Second

// Ready returns nil if the server of the first partition answers, else why the history cannot be read. It changes
// nothing.
func (s *Store) Ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	_, err := s.run(ctx, 0, s.scripts.read, nil)
	return err
}

// probe checks whether a partition can be written, once; see probe.lua.
func (s *Store) probe(ctx context.Context, p history.Partition) error {
	if s.probed[p].Load() {
		return nil
	}
	if _, err := s.run(ctx, p, s.scripts.probe, []string{probeKey(p)}); err != nil {
		return err
	}
	s.probed[p].Store(true)
	return nil
}

// run runs a script in a partition. It puts the format's key before keys, and format and time before args. If the
// partition has moved to another node, run runs the script there; if it is being moved, run waits.
func (s *Store) run(ctx context.Context, p history.Partition, script *pipeline.Script, keys []string, args ...any) (
	reply pipeline.Reply, err error) {
	for begin, retry := time.Now(), true; retry; {
		var r *route
		if r, err = s.route(ctx, p); err != nil {
			break
		}
		reply, err = pipeline.Run(ctx, s.servers, topology.Destination{Key: []byte(partitionKey(p)), Node: r.node}, script,
			append([]string{formatKey(p)}, keys...), append([]any{r.format(), s.c.Now()}, args...)...)
		retry = s.shouldRetry(ctx, p, r, reply, err, begin)
	}
	switch {
	case err == nil:
		err = replyError(reply)
	case strings.Contains(err.Error(), "WRONGTYPE"):
		err = fmt.Errorf("%w: a key of %q: %w", ErrDamaged, keys, err)
	}
	if err != nil {
		return nil, fmt.Errorf("partition %d of the history: %w", p, err)
	}
	return reply, nil
}

// command sends a Redis command to a partition. The second word must be a key of the partition.
func (s *Store) command(ctx context.Context, p history.Partition, words ...any) (answer any, err error) {
	script := s.scripts.command
	if slices.Contains([]any{"set", "zadd", "zrem"}, words[0]) {
		script = s.scripts.write
	}
	reply, err := s.run(ctx, p, script, []string{words[1].(string)}, append(words[:1:1], words[2:]...)...)
	return item[any](reply, 1), err
}

var errUnreadable = errors.New("the reply is not the script's")

// replyError returns the error in a script's reply, nil if there is none.
func replyError(reply pipeline.Reply) error {
	switch item[string](reply, 0) {
	case "":
		return errUnreadable
	case "format":
		return fmt.Errorf("%w: %s, and this weir knows %s: use the weir that wrote it, or another database",
			ErrFormat, item[string](reply, 1), format)
	case "moving", "copying", "moved":
		return fmt.Errorf("%w (%s): try again", ErrMoving, item[string](reply, 0))
	case "damaged":
		return fmt.Errorf("%w: %s: %s", ErrDamaged, item[string](reply, 1), item[string](reply, 2))
	}
	return nil
}

// item returns an item of a reply, or the zero T if the item is missing or not a T.
func item[T any](reply pipeline.Reply, i int) (v T) {
	if i < len(reply) {
		v, _ = reply[i].(T)
	}
	return v
}
