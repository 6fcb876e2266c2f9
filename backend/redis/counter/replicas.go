package counter

import (
	"context"
	"crypto/rand"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter/script"
)

const (
	// beatPause is how long after a heartbeat the next one follows at most, and four fifths of it at least.
	beatPause = 5 * time.Second
	// beatLife is for how long after its last heartbeat a replica counts as alive: two may be lost.
	beatLife = 15 * time.Second
	// quickBeats is how many heartbeats at the start are a second apart.
	quickBeats = 4
	// beatTime is how long a heartbeat may take.
	beatTime = time.Second
)

// heart tells Redis that this process lives, and learns how many others do. Heartbeats are fields of one hash: a name
// that a process chose at random, and when it told last, in milliseconds since 1970 by the server's clock. A nil heart
// knows of nobody.
type heart struct {
	store  *Store
	name   string
	told   time.Time            // this one's last heartbeat, by the server's clock; the goroutine's own, as those that follow
	beaten time.Time            // when the server had it
	hears  time.Time            // since when heartbeats succeed; zero: the last one did not
	seen   map[string]time.Time // when another one was last found alive
	alive  atomic.Int64         // 0: nobody knows
	all    atomic.Bool          // all that live have had the time to tell
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// replicasKey is where the heartbeats are.
var replicasKey = script.KeyOf("live", "replicas")

func newHeart(s *Store) *heart {
	ctx, stop := context.WithCancel(context.Background())
	h := &heart{store: s, name: rand.Text(), seen: make(map[string]time.Time), stop: stop}
	h.done.Go(func() {
		for beats := 0; ctx.Err() == nil; {
			if h.quiet() {
				h.hears = time.Time{}
				pause(ctx, time.Second)
				continue
			}
			if n, err := h.beat(ctx); err == nil {
				h.learn(n, time.Now())
				if beats++; beats < quickBeats { // others may start at the same time
					pause(ctx, time.Second)
				} else {
					pause(ctx, beatPause-mathrand.N(beatPause/5))
				}
			} else {
				h.hears = time.Time{}
				pause(ctx, time.Second+mathrand.N(time.Second))
			}
		}
	})
	return h
}

// learn takes how many a heartbeat found. Until heartbeats have succeeded for as long as lies between two, others may
// live that have not told: they started at the same time, or could not reach the server either. So till then the number
// only grows.
func (h *heart) learn(alive int, now time.Time) {
	if h.hears.IsZero() {
		h.hears = now
	}
	if now.Sub(h.hears) < beatPause {
		alive = max(alive, int(h.alive.Load()))
	} else {
		h.all.Store(true)
	}
	h.alive.Store(int64(alive))
}

// pause waits, for as long as ctx lasts.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// quiet reports whether the server of the heartbeats is known to be away, or not known.
func (h *heart) quiet() bool {
	client, err := h.store.servers.Owner([]byte(replicasKey))
	if err != nil {
		return true
	}
	l, known := h.store.lanes.Load(client)
	return known && l.(*lane).away.Load() != nil
}

// beat tells that this process lives, and returns how many do. Fields of those that do not are removed. It uses commands
// that counting needs, too.
func (h *heart) beat(ctx context.Context) (alive int, err error) {
	ctx, cancel := context.WithTimeout(ctx, beatTime)
	defer cancel()
	at := redis.At{Key: []byte(replicasKey)}
	now, names := goredis.NewTimeCmd(ctx, "time"), goredis.NewStringSliceCmd(ctx, "hkeys", replicasKey)
	if err := h.store.servers.Ask(ctx, at, now, names); err != nil {
		return 0, err
	}
	get := []any{"hmget", replicasKey, h.name}
	for _, name := range names.Val() {
		get = append(get, name)
	}
	values := goredis.NewSliceCmd(ctx, get...)
	tell := []goredis.Cmder{
		goredis.NewIntCmd(ctx, "hset", replicasKey, h.name, now.Val().UnixMilli()),
		goredis.NewIntCmd(ctx, "pexpire", replicasKey, (4 * beatLife).Milliseconds()),
		values,
	}
	if err := h.store.servers.Ask(ctx, at, tell...); err != nil {
		return 0, err
	}
	// Without this one's heartbeat, what else the server held is gone as well. That it was away is known already.
	if !h.told.IsZero() && !slices.Contains(names.Val(), h.name) && h.store.StatesSince(h.beaten) == 1 {
		if client, err := h.store.servers.Owner([]byte(replicasKey)); err == nil {
			h.store.servers.Lost(h.store.servers.NameOf(client), time.Now())
		}
	}
	h.told, h.beaten = now.Val(), time.Now()
	gone := []any{"hdel", replicasKey}
	for i, name := range names.Val() {
		text, _ := values.Val()[i+1].(string)
		last, err := strconv.ParseInt(text, 10, 64)
		age := now.Val().Sub(time.UnixMilli(last))
		switch {
		case name == h.name:
		case err != nil, age < -beatLife, age > 2*beatLife: // ahead, after a failover between clocks
			gone = append(gone, name)
			delete(h.seen, name)
		case age > beatLife: // the field stays until all others have read it
			delete(h.seen, name)
		default:
			h.seen[name] = time.Now()
		}
	}
	if len(gone) > 2 {
		err = h.store.servers.Ask(ctx, at, goredis.NewIntCmd(ctx, gone...))
	}
	return 1 + h.others(time.Now()), err
}

// others returns how many others live. One whose field is not there any more may live all the same: its server was
// restarted empty, or its key has another owner now, and it will tell so soon.
func (h *heart) others(now time.Time) int {
	maps.DeleteFunc(h.seen, func(_ string, last time.Time) bool { return now.Sub(last) > beatLife })
	return len(h.seen)
}

// Close ends the heartbeats, and tells so if the server answers within a second.
func (h *heart) Close() {
	if h == nil {
		return
	}
	h.stop()
	h.done.Wait()
	if h.alive.Load() == 0 || h.quiet() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(beatTime, h.store.servers.Timeout()))
	defer cancel()
	// A heartbeat that is too old tells the others that this one has left, where no field would only tell them nothing.
	// Without an answer they find out by themselves.
	left := h.told.Add(-beatLife - time.Millisecond).UnixMilli()
	_ = h.store.servers.Ask(ctx, redis.At{Key: []byte(replicasKey)}, goredis.NewIntCmd(ctx, "hset", replicasKey, h.name, left))
}

// Replicas returns how many processes of weir lived at the last heartbeat, this one among them, and 0 before the first.
// While Redis is away the number stays. It reports whether these are all, or others may not have told yet.
func (s *Store) Replicas() (alive int, all bool) {
	if s.heart == nil {
		return 0, false
	}
	return int(s.heart.alive.Load()), s.heart.all.Load()
}
