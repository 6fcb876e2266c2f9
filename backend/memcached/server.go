package memcached

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
)

const (
	// tripAfter is how many exchanges in a row are lost until a server is not asked any more. Those that overlap are one.
	tripAfter = 3
	// probePause is the least pause between questions whether a server is back; the longest is half as much again.
	probePause = 100 * time.Millisecond
	// probeTimeout is how late an answer to them may come, and how long connecting may take.
	probeTimeout = 250 * time.Millisecond
	// readEvery is how often the statistics of a server are read.
	readEvery = 10 * time.Second
	// maxLosses is how many losses of a server are remembered one by one.
	maxLosses = 256
)

var errLeft = errors.New("it is not one of the servers any more")

// server is one memcached, and what is known of it.
type server struct {
	store *Store
	name  string
	id    uint64 // by which it is chosen
	lanes []*lane

	away    atomic.Pointer[backend.Away] // why it is not asked, nil while it is
	ended   atomic.Pointer[backend.Away] // why it is not asked any more at all
	counted atomic.Bool                  // it has answered once
	failing atomic.Pointer[string]       // what it answers instead of statistics, nil if it gives them

	mu         sync.Mutex
	lostInRow  int
	lastLost   time.Time // when the last of them ended
	lastAnswer time.Time
	losses     []loss // the last ones, oldest first
	lost       int    // all of them

	lastRead map[string]uint64 // of watch, as is
	evicting bool              // when they were read last

	stop context.CancelFunc
	news chan struct{} // has a token when something has been lost: it is asked then whether it lives
	done sync.WaitGroup
}

// loss is a moment at which a key may have lost its count so many times.
type loss struct {
	at    time.Time
	times int
}

// open makes a server, which begins to work. The caller holds changing.
func (s *Store) open(name string) *server {
	v := &server{store: s, name: name, id: idOf(name), news: make(chan struct{}, 1)}
	var ctx context.Context
	ctx, v.stop = context.WithCancel(context.Background())
	for range s.config.Connections {
		l := &lane{server: v, wake: make(chan struct{}, 1)}
		v.lanes = append(v.lanes, l)
		v.done.Go(func() { l.run(ctx) })
	}
	v.done.Go(func() { v.watch(ctx) })
	return v
}

// close ends a server. What waits for it is refused; what is out comes back.
func (v *server) close(why error) {
	v.ended.Store(v.unavailable(backend.Down, why))
	v.stop()
	for _, l := range v.lanes {
		l.interrupt()
	}
	v.done.Wait()
}

func (v *server) unavailable(r backend.Reason, why error) *backend.Away {
	return &backend.Away{Reason: r, Err: fmt.Errorf("%w: %s: %w", ErrUnavailable, v.name, why)}
}

// answered notes an exchange with an answer.
func (v *server) answered(now time.Time) {
	v.mu.Lock()
	v.lostInRow, v.lastAnswer = 0, now
	v.mu.Unlock()
}

// missed notes that what was sent at a moment has no answer, or that a caller who came then leaves without one. After
// three in a row the server is away; at once if nobody listens there; and if what it was asked after a loss, whether it
// lives, has no answer either. What it has answered meanwhile outweighs all that.
func (v *server) missed(sent time.Time, alive bool, why error) {
	now := time.Now()
	v.mu.Lock()
	gone := v.lastAnswer.Before(sent) && (unreachable(why) || alive && v.lostInRow > 0)
	if sent.Before(v.lastLost) && !gone || v.away.Load() != nil || v.ended.Load() != nil {
		v.mu.Unlock()
		return
	}
	v.lastLost = now
	v.lostInRow++
	opens := gone || v.lostInRow >= tripAfter
	if opens {
		v.away.Store(v.unavailable(backend.Down, fmt.Errorf("it is away: %w", why)))
	}
	v.mu.Unlock()
	select {
	case v.news <- struct{}{}:
	default:
	}
	if !opens {
		return
	}
	v.log().Warn("memcached server does not answer", "error", why)
	v.lose(1, now) // what it holds when it is back is unknown
	for _, l := range v.lanes {
		l.interrupt()
	}
}

// unreachable reports whether an error is that nobody listens there.
func unreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && !op.Timeout()
}

// lose notes that a key may have lost its count.
func (v *server) lose(times int, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lost += times
	if v.losses = append(v.losses, loss{now, times}); len(v.losses) > maxLosses {
		v.losses = slices.Delete(v.losses, 0, 1)
	}
}

// lostSince returns how many times that was from t on, at most: where some are not remembered, all.
func (v *server) lostSince(t time.Time) (times int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.losses {
		if !v.losses[i].at.Before(t) {
			if i == 0 {
				return v.lost
			}
			times += v.losses[i].times
		}
	}
	return times
}

// watch reads the server's statistics now and then, and finds out when it is back.
func (v *server) watch(ctx context.Context) {
	var c *conn
	for {
		var err error
		sent := time.Now()
		if c, err = v.read(ctx, c); ctx.Err() != nil {
			break
		}
		pause := v.store.config.every
		if err != nil {
			v.missed(sent, true, err)
			pause = probePause + rand.N(probePause/2)
		}
		if err == nil && v.away.Load() != nil {
			v.mu.Lock()
			v.lostInRow = tripAfter - 1 // one more loss, and it is away again
			v.away.Store(nil)
			v.mu.Unlock()
			v.log().Warn("memcached server answers again")
		}
		select {
		case <-time.After(pause):
		case <-v.news:
		case <-ctx.Done():
		}
	}
	if c != nil {
		_ = c.Close()
	}
}

// read asks for the statistics, on a connection that is made if there is none.
func (v *server) read(ctx context.Context, c *conn) (*conn, error) {
	if c == nil {
		var err error
		if c, err = v.dial(ctx, probeTimeout); err != nil {
			return nil, err
		}
	}
	defer c.closeAt(ctx)()
	_ = c.SetDeadline(time.Now().Add(probeTimeout)) // what fails, the reading tells
	all, err := c.statistics()
	var refused refusal
	if err != nil && !errors.As(err, &refused) {
		_ = c.Close()
		return nil, err
	}
	if err != nil {
		why := string(refused)
		if before := v.failing.Swap(&why); before == nil || *before != why {
			v.log().Warn("memcached server cannot count", "error", err)
		}
		return c, nil
	}
	v.failing.Store(nil)
	v.note(all)
	if !v.counted.Swap(true) {
		v.log().Info("memcached is ready")
		v.store.ready()
	}
	return c, nil
}

// note finds in the statistics what the server may have lost since they were read last.
func (v *server) note(now map[string]uint64) {
	before := v.lastRead // which no other goroutine reads
	if v.lastRead = now; before == nil || len(now) == 0 {
		return
	}
	evicted, lost := now["evictions"]-before["evictions"], 0
	if now["pid"] != before["pid"] || now["uptime"] < before["uptime"] {
		evicted, lost = now["evictions"], 1
		v.store.restarts.Add(1)
		v.log().Warn("memcached server has been restarted: its counts are gone")
	} else if now["cmd_flush"] > before["cmd_flush"] {
		lost = 1
		v.log().Warn("memcached server has been flushed: its counts are gone")
	}
	began := !v.evicting
	if v.evicting = evicted > 0; v.evicting && began {
		v.log().Warn("memcached server has thrown out counts that were alive: give it more memory (-m), or a server of its own",
			"evictions", evicted)
	}
	v.store.evictions.Add(evicted)
	if lost += int(evicted); lost > 0 {
		v.lose(lost, time.Now())
	}
}

// state is what operators are told.
func (v *server) state() backend.ServerState {
	switch {
	case v.away.Load() != nil:
		return backend.ServerAway
	case v.failing.Load() != nil:
		return backend.ServerFailing
	case !v.counted.Load():
		return backend.ServerAway
	}
	return backend.ServerUp
}
