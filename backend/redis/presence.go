package redis

import (
	"context"
	"crypto/rand"
	"maps"
	mathrand "math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis/script"
)

const (
	// presenceInterval is the longest time between two updates; the shortest is four fifths of it.
	presenceInterval = 5 * time.Second
	// presenceTTL is how long after its last update a replica counts as alive: two updates may be lost.
	presenceTTL = 15 * time.Second
	// quickUpdates is the number of updates at the start that follow each other after a second.
	quickUpdates = 4
	// presenceTimeout is the timeout of an update.
	presenceTimeout = time.Second
)

// presence announces this process in Redis, counts the others, and compares the script's library. Each process has a
// field in one hash: a random name, and the time of its last update by the server's clock, in Unix milliseconds.
type presence struct {
	store *Store
	name  string

	// Only the goroutine of start uses these fields.

	announced bool                 // at least one update succeeded
	losses    uint64               // Losses of the servers at the last update
	since     time.Time            // first of the present series of successful updates; zero if the last one failed
	seen      map[string]time.Time // by the name of another process, when it was last found alive

	alive    atomic.Int64 // number of live processes, 0 before the first update
	complete atomic.Bool  // all live processes have had the time for an update

	stop context.CancelFunc
	done sync.WaitGroup
}

// replicasKey is the hash of all replicas.
var replicasKey = script.KeyOf("live", "replicas")

func newPresence(s *Store) *presence {
	return &presence{store: s, name: rand.Text(), seen: make(map[string]time.Time), stop: func() {}}
}

func (p *presence) start() {
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.done.Go(func() {
		for updates := 0; ctx.Err() == nil; {
			wait := time.Second
			if n, err := p.update(ctx); err == nil {
				p.noteAlive(n, time.Now())
				if updates++; updates >= quickUpdates { // others may start at the same time
					wait = presenceInterval - mathrand.N(presenceInterval/5)
				}
			} else {
				p.since = time.Time{}
				wait += mathrand.N(time.Second)
			}
			p.done.Go(func() { p.store.CompareLibraries(ctx, time.Now(), p.store.logCallMode) })
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
		}
	})
}

// noteAlive notes the number of processes that an update found. The number does not fall before updates have succeeded
// for presenceInterval: others may have started at the same time, or could not reach the server either.
func (p *presence) noteAlive(alive int, now time.Time) {
	if p.since.IsZero() {
		p.since = now
	}
	if now.Sub(p.since) < presenceInterval {
		alive = max(alive, int(p.alive.Load()))
	} else {
		p.complete.Store(true)
	}
	p.alive.Store(int64(alive))
}

// update updates this process's field, removes expired fields, and returns the number of live processes.
func (p *presence) update(ctx context.Context) (alive int, err error) {
	if p.store.Away(replicasKey) {
		return 0, ErrUnavailable
	}
	ctx, cancel := context.WithTimeout(ctx, presenceTimeout)
	defer cancel()
	now := goredis.NewTimeCmd(ctx, "time")
	// HSCAN needs no further ACL right than counting. It reads up to thousands of fields.
	hash := goredis.NewScanCmd(ctx, nil, "hscan", replicasKey, 0, "count", 10_000)
	if err := p.store.Send(ctx, replicasKey, now, hash); err != nil {
		return 0, err
	}
	fields, _ := hash.Val()
	present, expired := false, []any{"hdel", replicasKey}
	for i := 1; i < len(fields); i += 2 { // a name, and its last update
		name := fields[i-1]
		if name == p.name {
			present = true
			continue
		}
		last, err := strconv.ParseInt(fields[i], 10, 64)
		age := now.Val().Sub(time.UnixMilli(last))
		switch {
		case err != nil, age < -presenceTTL, age > 2*presenceTTL: // negative after a failover to a server with another clock
			expired = append(expired, name)
			delete(p.seen, name)
		case age > presenceTTL: // dead; the field stays until all others have read it
			delete(p.seen, name)
		default:
			p.seen[name] = time.Now()
		}
	}
	// A server that lost this field lost its counts. If the server was away, that loss has been counted.
	if !present && p.announced && p.store.servers.Losses() == p.losses {
		p.store.servers.AddLoss()
	}
	commands := []goredis.Cmder{goredis.NewIntCmd(ctx, "hset", replicasKey, p.name, now.Val().UnixMilli()),
		goredis.NewIntCmd(ctx, "pexpire", replicasKey, (4 * presenceTTL).Milliseconds())}
	if len(expired) > 2 {
		commands = append(commands, goredis.NewIntCmd(ctx, expired...))
	}
	if err := p.store.Send(ctx, replicasKey, commands...); err != nil {
		return 0, err
	}
	p.announced, p.losses = true, p.store.servers.Losses()
	return 1 + p.others(time.Now()), nil
}

// others returns the number of other live processes. A process without a field counts until presenceTTL has passed, as
// the server may have lost the field.
func (p *presence) others(now time.Time) int {
	maps.DeleteFunc(p.seen, func(_ string, last time.Time) bool { return now.Sub(last) > presenceTTL })
	return len(p.seen)
}

// stopAndWait ends the updates. Other processes count this one as alive until its field expires.
func (p *presence) stopAndWait() {
	p.stop()
	p.done.Wait()
}

// Replicas implements [backend.Replicas]. While Redis is away it returns the last number.
func (s *Store) Replicas() (alive int, complete bool) {
	return int(s.presence.alive.Load()), s.presence.complete.Load()
}
