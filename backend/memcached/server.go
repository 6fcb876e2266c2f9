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
	// tripAfter is how many lost exchanges in a row make a server away. Those that overlap count as one.
	tripAfter = 3
	// probePause is the least pause between probes of a server that is away; the longest is half as much again.
	probePause = 100 * time.Millisecond
	// probeTimeout is how long a probe may take, and connecting for one.
	probeTimeout = 250 * time.Millisecond
	// readEvery is how often the statistics of a server are read.
	readEvery = 10 * time.Second
	// maxLosses is how many losses of a server are remembered one by one.
	maxLosses = 256
)

var errRemoved = errors.New("the SRV record no longer names this server")

// server is one memcached, and what is known of it.
type server struct {
	store  *Store
	name   string
	id     uint64 // by which it is chosen
	queues []*queue

	away    atomic.Pointer[backend.Away] // why the server is not asked now; nil while it answers
	ended   atomic.Pointer[backend.Away] // why it is never asked again; nil until close
	everUp  atomic.Bool                  // it has answered once
	failing atomic.Pointer[string]       // the error that it answers to "stats"; nil if it answers with statistics

	mu         sync.Mutex
	lostInRow  int
	lastLost   time.Time // when the last of them ended
	lastAnswer time.Time
	losses     []loss // the last ones, oldest first
	lost       int    // all of them

	lastStats map[string]uint64 // used by watch alone, as is evicting
	evicting  bool              // there were evictions between the last two reads

	stop     context.CancelFunc
	probeNow chan struct{} // has a token when an exchange was lost: watch then probes at once
	done     sync.WaitGroup
}

// loss is a time at which a key may have lost its count, and how many times.
type loss struct {
	at    time.Time
	times int
}

// open starts the queues and the probes of a server. The caller holds s.changing.
func (s *Store) open(name string) *server {
	v := &server{store: s, name: name, id: idOf(name), probeNow: make(chan struct{}, 1)}
	var ctx context.Context
	ctx, v.stop = context.WithCancel(context.Background())
	for range s.config.Connections {
		q := &queue{server: v, wake: make(chan struct{}, 1)}
		v.queues = append(v.queues, q)
		v.done.Go(func() { q.run(ctx) })
	}
	v.done.Go(func() { v.watch(ctx) })
	return v
}

// close refuses the requests that wait for the server, interrupts its exchanges, and waits for its goroutines.
func (v *server) close(why error) {
	v.ended.Store(v.unavailable(backend.Down, why))
	v.stop()
	for _, q := range v.queues {
		q.interrupt()
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

// missed notes that what was sent at a time, an exchange or a probe, got no answer. The server is away after three lost
// exchanges in a row, after one and a lost probe, or at once if nothing listens there and it has not answered since.
func (v *server) missed(sent time.Time, probe bool, why error) {
	now := time.Now()
	v.mu.Lock()
	gone := v.lastAnswer.Before(sent) && (unreachable(why) || probe && v.lostInRow > 0)
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
	signal(v.probeNow)
	if !opens {
		return
	}
	v.log().Warn("memcached server does not answer", "error", why)
	v.noteLoss(1, now) // it may be empty when it is back
	for _, q := range v.queues {
		q.interrupt()
	}
}

// unreachable reports whether nothing listens at the server.s address.
func unreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && !op.Timeout()
}

// noteLoss notes that a key may have lost its count so many times.
func (v *server) noteLoss(times int, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lost += times
	if v.losses = append(v.losses, loss{now, times}); len(v.losses) > maxLosses {
		v.losses = slices.Delete(v.losses, 0, 1)
	}
}

// lostSince returns how many times a key may have lost its count since t: an upper bound, as old losses are not kept
// apart.
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

// watch reads the server.s statistics every 10 s, and probes it by reading them while it is away.
func (v *server) watch(ctx context.Context) {
	var c *conn
	for {
		var err error
		sent := time.Now()
		if c, err = v.readStats(ctx, c); ctx.Err() != nil {
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
		case <-v.probeNow:
		case <-ctx.Done():
		}
	}
	if c != nil {
		_ = c.Close()
	}
}

// readStats reads the statistics. It connects first if c is nil, and returns the connection to use next, nil after a
// failure.
func (v *server) readStats(ctx context.Context, c *conn) (*conn, error) {
	if c == nil {
		var err error
		if c, err = v.dial(ctx, probeTimeout); err != nil {
			return nil, err
		}
	}
	defer c.closeAt(ctx)()
	_ = c.SetDeadline(time.Now().Add(probeTimeout)) // reading returns what fails
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
	v.noteStats(all)
	if !v.everUp.Swap(true) {
		v.log().Info("memcached is ready")
		v.store.ready()
	}
	return c, nil
}

// noteStats finds evictions, restarts and flushes since the statistics were last read.
func (v *server) noteStats(now map[string]uint64) {
	before := v.lastStats
	if v.lastStats = now; before == nil || len(now) == 0 {
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
		v.noteLoss(lost, time.Now())
	}
}

// state returns the state that operators see.
func (v *server) state() backend.ServerState {
	switch {
	case v.away.Load() != nil:
		return backend.ServerAway
	case v.failing.Load() != nil:
		return backend.ServerFailing
	case !v.everUp.Load():
		return backend.ServerAway
	}
	return backend.ServerUp
}
