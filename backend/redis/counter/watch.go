package counter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis"
)

const (
	// probePause is how long after a PING the next one follows at the earliest, and half as much again at the latest:
	// replicas do not come all at once.
	probePause = 100 * time.Millisecond
	// leastGreeting and mostGreeting bound how long it may take to connect for a PING. Between them it is five times as
	// long as callers wait, as TLS takes several round trips.
	leastGreeting, mostGreeting = 100 * time.Millisecond, 250 * time.Millisecond
)

// watch is what a lane knows of its server, and how it finds out more. All but the atomics is under the lane's mu.
type watch struct {
	breaker breaker
	calm    atomic.Bool                  // breaker.calm
	away    atomic.Pointer[backend.Away] // the answer to whoever asks while the server is absent, else nil
	trial   *batch                       // the one that is out while the server is returning
	probing bool                         // a goroutine sends PING
	probed  time.Time                    // when it did last

	life    context.Context // until the lane is closed
	end     context.CancelFunc
	patient context.Context // until the server is found to be away: then nobody waits for a connection
	giveUp  context.CancelFunc
}

// heard notes how an exchange ended that began at left, and whose callers had so much patience; err is why without an
// answer. It costs a comparison while nothing is wrong.
func (l *lane) heard(o outcome, left time.Time, patience time.Duration, err error) {
	if o == answered && l.calm.Load() {
		return
	}
	now := time.Now()
	l.learn(now, err, func() {
		l.breaker.hears(o, left, patience, now)
		if o == lost && l.breaker.condition == serving && now.Sub(l.probed) >= probePause {
			l.probe(0)
		}
	})
}

// learn lets the breaker learn something, and does what follows from it; err is why the server may be away.
func (l *lane) learn(now time.Time, err error, something func()) {
	var waiting queue
	l.mu.Lock()
	before := l.breaker.condition
	something()
	after := l.breaker.condition
	l.calm.Store(l.breaker.calm())
	switch {
	case after == before:
	case after == absent:
		waiting = l.opened(before, now, err)
	default:
		l.away.Store(nil)
		l.stir(now)
	}
	l.mu.Unlock()
	if away := l.away.Load(); away != nil {
		waiting.refuse(away)
	}
}

// opened lets nobody wait for the server any more. It returns whoever did in the lane.
func (l *lane) opened(before condition, now time.Time, err error) queue {
	away := &backend.Away{Reason: backend.Down, Err: fmt.Errorf("%w: %s is away: %w", ErrUnavailable, l.name, err)}
	l.away.Store(away)
	l.trial = nil
	l.giveUp()
	l.patient, l.giveUp = context.WithCancel(l.life)
	pause := pauseBetween()
	if before == serving {
		pause = 0
		l.store.servers.Lost(l.name, now)
	}
	l.probe(pause)
	l.store.health.Heard(false)
	return l.empty()
}

// probe sends PING after a pause, and again while the server is away, if that does not go on yet. The caller holds mu.
func (l *lane) probe(pause time.Duration) {
	if l.probing || l.closed {
		return
	}
	l.probing = true
	l.store.running.Go(func() {
		pinger := redis.NewPinger(l.client)
		defer pinger.Close()
		for more := true; more; pause = pauseBetween() {
			select {
			case <-time.After(pause):
			case <-l.life.Done():
				return
			}
			more = l.ping(pinger)
		}
	})
}

func pauseBetween() time.Duration { return probePause + rand.N(probePause/2) }

// ping sends one PING. It reports whether another one shall follow.
func (l *lane) ping(pinger *redis.Pinger) (more bool) {
	sent := time.Now()
	l.mu.Lock()
	l.probed = sent
	limit := l.breaker.limit()
	l.mu.Unlock()
	took, err := pinger.Ping(l.life, min(max(5*limit, leastGreeting), mostGreeting), mostPatience)
	if l.life.Err() != nil {
		return false
	}
	if err == nil && took > limit {
		l.store.health.Heard(false)
	}
	now := time.Now()
	l.learn(now, err, func() {
		l.breaker.pinged(err, took, sent, now)
		l.probing = l.breaker.condition == absent
		more = l.probing
	})
	if more {
		l.store.servers.Reload()
		if redis.Left(l.client) {
			l.store.tidyLanes()
		}
	}
	return more
}
