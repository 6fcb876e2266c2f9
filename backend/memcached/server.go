package memcached

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
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
	// probeTimeout is how long a probe may take, connecting for it included.
	probeTimeout = 250 * time.Millisecond
	// statsInterval is how often the statistics of a server are read.
	statsInterval = 10 * time.Second
)

var errRemoved = errors.New("the SRV record no longer names this server")

// server is one memcached, and what is known of it.
type server struct {
	store  *Store
	name   string
	id     uint64 // by which it is chosen
	queues []*queue

	away   atomic.Pointer[backend.Away] // why the server is not asked; nil while it can count. After close it stays
	everUp atomic.Bool                  // it has shown once that it can count

	mu         sync.Mutex
	lostInRow  int
	lastLost   time.Time // when the last of them ended
	lastAnswer time.Time
	up         context.Context    // of exchanges: ends when the server is found to be away
	interrupt  context.CancelFunc // ends up

	lastStats map[string]uint64 // used by watch alone, as is evicting
	evicting  bool              // there were evictions between the last two reads

	life     context.Context // until close
	stop     context.CancelFunc
	probeNow chan struct{} // has a token when an exchange was lost: watch then probes at once
	done     sync.WaitGroup
}

// open starts the queues and the probes of a server.
func (s *Store) open(name string) *server {
	v := &server{store: s, name: name, id: idOf(name), probeNow: make(chan struct{}, 1)}
	v.life, v.stop = context.WithCancel(context.Background())
	v.up, v.interrupt = context.WithCancel(v.life)
	for range s.config.Connections {
		q := &queue{server: v, wake: make(chan struct{}, 1)}
		v.queues = append(v.queues, q)
		v.done.Go(q.run)
	}
	v.done.Go(v.watch)
	return v
}

// close refuses the requests that wait for the server, interrupts its exchanges, and waits for its goroutines.
func (v *server) close(why error) {
	v.mu.Lock()
	v.away.Store(v.unavailable(backend.Down, why))
	v.stop()
	v.mu.Unlock()
	v.done.Wait()
}

func (v *server) unavailable(r backend.Reason, why error) *backend.Away {
	return &backend.Away{Reason: r, Err: fmt.Errorf("%w: %s: %w", ErrUnavailable, v.name, why)}
}

// upContext returns a context that ends when the server is found to be away.
func (v *server) upContext() context.Context {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.up
}

// answered notes an exchange with an answer.
func (v *server) answered(now time.Time) {
	v.mu.Lock()
	v.lostInRow, v.lastAnswer = 0, now
	v.mu.Unlock()
}

// missed notes that what was sent at a time, an exchange or a probe, got no answer.
func (v *server) missed(sent time.Time, probe bool, why error) {
	reason, what := backend.Down, "memcached server does not answer"
	if isRefusal(why) {
		reason, what = backend.Refused, "memcached server cannot count"
	}
	if v.trips(sent, probe, why, v.unavailable(reason, fmt.Errorf("it is away: %w", why))) {
		v.log().Warn(what, "error", why)
	}
}

// trips notes a loss, and reports whether the server is away by that: after three lost exchanges in a row, after one
// and a lost probe, or at once if it refuses a probe, or if nothing listens there and it has not answered since.
func (v *server) trips(sent time.Time, probe bool, why error, away *backend.Away) bool {
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	gone := away.Reason == backend.Refused || v.lastAnswer.Before(sent) && (unreachable(why) || probe && v.lostInRow > 0)
	switch known := v.away.Load(); {
	case v.life.Err() != nil, sent.Before(v.lastLost) && !gone:
		return false
	case known != nil && known.Reason == away.Reason:
		if probe {
			v.away.Store(away) // what is wrong now
		}
		return false
	}
	signal(v.probeNow)
	v.lastLost = now
	if v.lostInRow++; v.lostInRow < tripAfter && !gone {
		return false
	}
	v.away.Store(away)
	v.interrupt()
	v.up, v.interrupt = context.WithCancel(v.life)
	return true
}

// unreachable reports whether nothing listens at the server's address.
func unreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && !op.Timeout()
}

// returned notes that the server has shown that it can count.
func (v *server) returned() {
	v.mu.Lock()
	back := v.away.Load() != nil && v.life.Err() == nil
	if back {
		v.lostInRow = tripAfter - 1 // one more loss, and it is away again
		v.away.Store(nil)
	}
	v.mu.Unlock()
	if back {
		v.log().Warn("memcached server answers again")
	}
	if !v.everUp.Swap(true) {
		v.log().Info("memcached is ready")
		v.store.setReady()
	}
}

// watch reads the server's statistics every 10 s, and probes it by reading them while it is away.
func (v *server) watch() {
	for v.life.Err() == nil {
		sent, pause := time.Now(), v.store.config.statsInterval
		var all map[string]uint64
		err := v.withConn(v.life, probeTimeout, func(c *conn) (err error) {
			all, err = c.statistics()
			return err
		})
		if err == nil {
			v.noteStats(all)
			v.returned()
		} else {
			v.missed(sent, true, err)
			pause = probePause + rand.N(probePause/2)
		}
		select {
		case <-time.After(pause):
		case <-v.probeNow:
		case <-v.life.Done():
		}
	}
}

// withConn runs do on a connection of its own, both within a timeout.
func (v *server) withConn(ctx context.Context, timeout time.Duration, do func(c *conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := v.dial(ctx, timeout)
	if err != nil {
		return err
	}
	defer c.close()
	if err = do(c); ctx.Err() != nil { // which has closed the connection
		return ctx.Err()
	}
	return err
}

// noteStats finds evictions, restarts and flushes since the statistics were last read.
func (v *server) noteStats(now map[string]uint64) {
	before := v.lastStats
	if v.lastStats = now; before == nil {
		return
	}
	evicted := now["evictions"]
	if evicted >= before["evictions"] { // else the statistics began anew
		evicted -= before["evictions"]
	}
	if now["pid"] != before["pid"] || now["uptime"] < before["uptime"] {
		evicted = now["evictions"]
		v.store.restarts.Add(1)
		v.log().Warn("memcached server has been restarted: its counts are gone")
	} else if now["cmd_flush"] > before["cmd_flush"] {
		v.store.restarts.Add(1)
		v.log().Warn("memcached server has been flushed: its counts are gone")
	}
	if evicted > 0 && !v.evicting {
		v.log().Warn("memcached server has thrown out counts that were alive: give it more memory (-m), or a server of its own",
			"evictions", evicted)
	}
	v.evicting = evicted > 0
	v.store.evictions.Add(evicted)
}

// state returns the state that operators see.
func (v *server) state() backend.ServerState {
	switch away := v.away.Load(); {
	case away != nil && away.Reason == backend.Refused:
		return backend.ServerFailing
	case away != nil, !v.everUp.Load():
		return backend.ServerAway
	}
	return backend.ServerUp
}

// log returns the logger for lines about the server.
func (v *server) log() *slog.Logger { return v.store.config.Log.With("server", v.name) }
