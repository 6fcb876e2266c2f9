// Package redishistory keeps the history of hits in Redis servers: one, a primary with sentinels, a cluster, or a ring.
//
// Each partition has a hash tag of its own, so that scripts reach all keys of a series and the positions of those who
// write at once; every key is declared, so that no script meets half a slot migration. FORMAT.md has the layout. All
// scripts may run twice: a batch by its number, a move by the version of the list of chunks that it was planned on.
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

// ErrFormat is wrapped by errors that say that what the servers hold is in a format that this weir does not know.
var ErrFormat = errors.New("the history is in another format")

// ErrDamaged is wrapped by errors that name a key which holds what nothing of weir has written there.
var ErrDamaged = errors.New("the history is damaged")

// ErrMoving is wrapped by errors that say that a partition is on its way to another node.
var ErrMoving = errors.New("it is being moved to another node")

// Config is where the history is, and how it is kept.
type Config struct {
	// Redis is how the servers are reached. The nodes of a ring are fixed, whatever it says: NodeLoss means nothing
	// here.
	Redis topology.Config
	// Now, if not nil, is the clock in place of the servers': it returns the time in decimal microseconds. It is for
	// tests.
	Now func() string
	// Retention is history.DefaultRetention() by default.
	Retention history.Retention
	// Pace is which part of its time a job lets a server work for it, above 0 to 1; a quarter by default, as what answers
	// requests may be the same server. Another is for tests.
	Pace float64
	// ReadOnly makes a store that only reads, with fewer rights: Apply and Downsample fail. Whether the servers can keep a
	// history is not found out then.
	ReadOnly bool
	// Moves makes a store for Move, whose errors name the rights that it needs besides.
	Moves bool
	// Step, if not nil, is called before and after each change of a server, by the goroutine of Apply, Downsample or Move.
	// It is for tests.
	Step func(name string)
}

// Store is a history.Store whose series are in Redis.
type Store struct {
	OnVisit func() // if not nil, called after each partition that a job has looked at or moved; set it before
	// OnPlan, if not nil, is called by Move with how many partitions it will move.
	OnPlan func(partitions int)

	c       Config // with its defaults
	servers *topology.Servers
	scripts scripts
	log     *slog.Logger

	ring    ring
	pinned  *route                      // of a mover's view of one partition at one node, else nil
	renew   func(context.Context) error // of the mover's locks, called before each read if pinned
	probed  [history.Partitions]atomic.Bool
	stop    context.CancelFunc
	polling sync.WaitGroup
}

var _ history.Store = (*Store)(nil)

// Open makes a store. It checks the configuration and waits for no server: one that is away is no error here. Whether
// they can keep a history is found out with the first batch or job in each partition.
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
	s.ring.names = slices.Sorted(slices.Values(servers.Nodes())) // nil of none
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

// readyTimeout is how long the server may take to answer that it does.
const readyTimeout = 5 * time.Second

// Ready returns why the history cannot be read, nil if the server of its first partition answers. It changes nothing.
func (s *Store) Ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	_, err := s.run(ctx, 0, s.scripts.read, nil)
	return err
}

// probe finds out, once, whether a partition can be written: see probe.lua.
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

// run runs a script in a partition. It puts the format's key before keys, and format and time before args. It follows a
// partition that has moved to another node, and waits for one that is being moved.
func (s *Store) run(ctx context.Context, p history.Partition, script *pipeline.Script, keys []string, args ...any) (
	reply pipeline.Reply, err error) {
	for begin, again := time.Now(), true; again; {
		var r *route
		if r, err = s.route(ctx, p); err != nil {
			break
		}
		reply, err = pipeline.Run(ctx, s.servers, topology.Destination{Key: []byte(partitionKey(p)), Node: r.node}, script,
			append([]string{formatKey(p)}, keys...), append([]any{r.format(), s.c.Now()}, args...)...)
		again = s.follow(ctx, p, r, reply, err, begin)
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

// command sends a Redis command to a partition. Its second word is a key of the partition.
func (s *Store) command(ctx context.Context, p history.Partition, words ...any) (answer any, err error) {
	script := s.scripts.command
	if slices.Contains([]any{"set", "zadd", "zrem"}, words[0]) {
		script = s.scripts.write
	}
	reply, err := s.run(ctx, p, script, []string{words[1].(string)}, append(words[:1:1], words[2:]...)...)
	return item[any](reply, 1), err
}

var errUnreadable = errors.New("the reply is not the script's")

// replyError returns the error that a reply of any script may be, nil if it is none.
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

// item returns an item of a reply, the zero T if it is no T.
func item[T any](reply pipeline.Reply, i int) (v T) {
	if i < len(reply) {
		v, _ = reply[i].(T)
	}
	return v
}
