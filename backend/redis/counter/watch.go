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
	// leastGreeting is how long it may always take to connect for a PING, which is two answers: a server that is only late
	// must not be taken for one that is gone.
	leastGreeting = 200 * time.Millisecond
	// pingTime is how long PONG is waited for, so that one that comes too late is not taken for silence, and how long
	// connecting may take. Callers may be more patient: one PING of so many is, too. The others must not be, as one that
	// was lost would hide for as long that the server is back.
	pingTime   = 250 * time.Millisecond
	patientTry = 4
)

// greetingTime returns how long it may take to connect for a PING: five times as long as callers wait, as TLS takes several
// round trips.
func greetingTime(limit time.Duration) time.Duration {
	return min(max(5*limit, leastGreeting), max(2*limit, pingTime))
}

// watch is what a lane knows of its server, and how it finds out more. All but the atomics is under the lane's mu.
type watch struct {
	breaker breaker
	calm    atomic.Bool                  // breaker.calm
	silent  atomic.Bool                  // a server that answered promptly has lost its last exchange
	away    atomic.Pointer[backend.Away] // the answer to whoever asks while the server is absent, else nil
	trial   *batch                       // the one that is out while the server is returning
	probing bool                         // a goroutine sends PING
	probed  time.Time                    // when it did last
	pacer   pacer                        // how fast the server answers lately
	needs   time.Duration                // how long it takes to answer while it answers too late, else 0
	late    string                       // how the server answers too late, "" if it is not known to

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
		tried := l.breaker.condition == returning
		l.breaker.hears(o, left, patience, now)
		if tried && o == lost && l.breaker.condition == absent {
			l.late, l.needs = "it answers PING, and no batch in time", 2*patience
		}
		if o == lost && l.breaker.condition == serving && now.Sub(l.probed) >= probePause {
			l.probe(0)
		}
	})
}

// expect sees to it that a caller is missed who leaves without an answer. The caller holds mu.
func (l *lane) expect(leave, now time.Time) {
	if l.rings.IsZero() || leave.Before(l.rings) {
		l.rings = leave
		l.overdue.Reset(leave.Sub(now))
	}
}

// miss hears of the exchanges that all callers have left: a new connection to a frozen server takes the store's timeout,
// for those who come next, and meanwhile no other exchange ends. Whoever leaves while the lane has no room was such an
// exchange, too. That of a server that is returning has time for a connection first, as PING has. No PING follows: it
// would wait for a connection as well, and not for as long.
func (l *lane) miss() {
	now := time.Now()
	l.learn(now, errLate, func() {
		l.rings = time.Time{}
		look := func(leave, since time.Time) {
			missed := leave
			if l.breaker.condition == returning {
				missed = leave.Add(greetingTime(l.breaker.limit()))
			}
			if missed.After(now) {
				l.expect(missed, now)
			} else {
				l.breaker.hears(lost, since, leave.Sub(since), missed) // the next one may have left since
			}
		}
		for _, b := range l.out {
			look(b.until, b.left)
		}
		for i := 0; i < len(l.queue) && len(l.out) == l.most && l.breaker.condition == serving; i++ {
			look(l.queue[i].call.leave, l.queue[i].joined)
		}
	})
}

// learn lets the breaker learn something, and does what follows from it; err is why the server may be away.
func (l *lane) learn(now time.Time, err error, something func()) {
	var waiting queue
	l.mu.Lock()
	before := l.breaker.condition
	l.breaker.slow = l.pacer.some.Load()
	something()
	after := l.breaker.condition
	l.silent.Store(after == serving && l.breaker.inRow > 0 && !l.breaker.slow)
	l.calm.Store(l.breaker.calm() && !l.probing) // an answer outweighs a PING that is on its way
	switch {
	case after == before:
	case after == absent:
		waiting = l.opened(before, now, err)
	default:
		if after == serving {
			l.late, l.needs = "", 0
		}
		l.away.Store(nil)
		l.stir(now)
	}
	away := l.away.Load()
	l.mu.Unlock()
	if away != nil {
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
		more := true
		for try := 1; more; try++ {
			select {
			case <-time.After(pause):
			case <-l.life.Done():
				return
			}
			more = l.ping(pinger, try%patientTry == 0)
			pause = pauseBetween()
		}
	})
}

func pauseBetween() time.Duration { return probePause + rand.N(probePause/2) }

// ping sends one PING, and waits for it as long as callers would if it is patient. It reports whether another one shall
// follow.
func (l *lane) ping(pinger *redis.Pinger, patient bool) (more bool) {
	sent := time.Now()
	l.mu.Lock()
	l.probed = sent
	limit := l.breaker.limit()
	l.mu.Unlock()
	greeting, patience := greetingTime(limit), max(limit, pingTime)
	if !patient {
		greeting, patience = min(greeting, pingTime), pingTime
	}
	took, err := pinger.Ping(l.life, greeting, patience)
	if l.life.Err() != nil {
		return false
	}
	now := time.Now()
	l.learn(now, err, func() {
		l.breaker.pinged(err, took, sent, now)
		switch {
		case err != nil:
			l.late, l.needs = "", 0
		case took > limit:
			l.needs = took
			l.late = fmt.Sprintf("it answers PING after %v, and its callers wait %v", took.Round(time.Millisecond), limit)
		}
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

// disconnect closes the connections that lead to a replica, where new ones may lead to the primary.
func (l *lane) disconnect() {
	ctx, cancel := context.WithTimeout(l.life, pingTime)
	defer cancel()
	redis.Disconnect(ctx, l.client)
}

// admits lets a caller in who can wait for a server that is away only for others, and have it tried with that. The
// caller holds mu.
func (l *lane) admits(leave, now time.Time) bool {
	if l.needs == 0 || !now.Add(l.needs+l.needs/4).Before(leave) {
		return false
	}
	l.breaker.become(returning, now)
	l.away.Store(nil)
	return true
}

// slow returns an error that wraps ErrSlow while the server is not asked since it answers too late, else nil.
func (l *lane) slow() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.breaker.condition == serving || l.late == "" {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", l.name, l.late, redis.ErrSlow)
}
