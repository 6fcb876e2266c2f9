package redis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// maxTries is how often an errand of a bounded Sender is sent at most. Redirects rarely need more than three.
	maxTries = 20
	// freeTries is how often an errand is sent again without a pause, after an error that needs none.
	freeTries = 3
	// firstPause and longestPause bound the pauses before an errand is sent again; each is twice the one before.
	firstPause, longestPause = time.Millisecond, 64 * time.Millisecond
)

// At is whom an errand is for: the owner of a key or, in a ring whose nodes are fixed, the node of a name.
type At struct {
	Key  []byte
	Node string
}

// Route is how an errand goes to a server.
type Route struct {
	Client *goredis.Client // nil while nobody knows who owns the key
	Asking bool            // after ASKING
}

// Errand is one thing to ask of the server that owns a key, with what became of it so far. It is part of what a
// [Sender] sends.
type Errand struct {
	At
	Route Route
	fate  Fate
	err   error
}

// Base returns the errand itself. It lets a Sender reach the errand in what embeds it.
func (e *Errand) Base() *Errand { return e }

// Answered notes that the errand has its answer.
func (e *Errand) Answered() { e.Unanswered(Fate{kind: answered}, nil) }

// Unanswered notes that the errand has no answer, with its fate and the reason. The zero Fate is that of an errand that
// must not be sent again.
func (e *Errand) Unanswered(f Fate, err error) { e.fate, e.err = f, err }

// Courier is what a Sender needs to know of the errands that it sends.
type Courier[E any] interface {
	// Exchange sends errands of one route, once, and notes in each by its methods what became of it.
	Exchange(ctx context.Context, r Route, group []E)
	// Gone reports whether nobody waits for an errand any more. The Sender then lets go of it.
	Gone(e E, now time.Time) bool
	// Done ends an errand, which the Sender then lets go of. err is why it will have no answer, nil if it has one.
	Done(e E, err error)
}

// Resends counts what was sent more than once.
type Resends struct {
	Redirected atomic.Uint64 // errands that followed a redirect of a cluster
	Resent     atomic.Uint64 // errands sent again, redirected ones among them
}

// Sender sends errands until each has an answer or will have none: it follows redirects, loads the script where it is
// missing, and pauses where a server needs time. An errand is sent again only if its fate allows that. A Sender does
// not wait for itself: it is for one goroutine, which may use it again and again.
type Sender[E interface{ Base() *Errand }] struct {
	servers *Servers
	courier Courier[E]
	script  *Script // nil if none can be missing
	resends *Resends
	bound   bool // an errand is sent at most maxTries times

	open, group, spare []E
}

// NewSender makes a sender of errands that are sent at most 20 times. The script, nil for none, is loaded where an
// errand finds it missing.
func NewSender[E interface{ Base() *Errand }](s *Servers, c Courier[E], script *Script, resends *Resends) *Sender[E] {
	return &Sender[E]{servers: s, courier: c, script: script, resends: resends, bound: true}
}

// Send returns when each errand has its answer or is given up. It pauses only while until, when the last caller leaves,
// is further away than the pause, and not after stop is closed. ctx bounds each exchange. Errands are sent in their
// order.
func (s *Sender[E]) Send(ctx context.Context, errands []E, until time.Time, stop <-chan struct{}) {
	s.open = append(s.open[:0], errands...)
	for try := 1; ; try++ {
		s.exchange(ctx)
		if len(s.open) == 0 {
			return
		}
		if s.bound && try == maxTries || !s.pause(try, until, stop) {
			break
		}
		s.reroute(ctx)
	}
	for _, e := range s.open {
		s.courier.Done(e, e.Base().err)
	}
}

// Release lets go of the errands of the last Send.
func (s *Sender[E]) Release() {
	for _, errands := range [][]E{s.open, s.group, s.spare} {
		clear(errands[:cap(errands)])
	}
}

// exchange sends each open errand once, by its route. Those that may be sent again stay open.
func (s *Sender[E]) exchange(ctx context.Context) {
	todo := s.open
	s.open, s.spare = s.spare[:0], todo
	for len(todo) > 0 {
		r, rest := todo[0].Base().Route, todo[:0]
		s.group = s.group[:0]
		for _, e := range todo {
			if e.Base().Route == r {
				s.group = append(s.group, e)
			} else {
				rest = append(rest, e)
			}
		}
		todo = rest
		if r.Client != nil {
			s.courier.Exchange(ctx, r, s.group)
		}
		for _, e := range s.group {
			if b := e.Base(); b.fate.kind == answered || b.fate.kind == failed {
				s.courier.Done(e, b.err)
			} else {
				s.open = append(s.open, e)
			}
		}
	}
}

// pause waits before what is open is sent again, if need be. It reports whether there is time for it.
func (s *Sender[E]) pause(try int, until time.Time, stop <-chan struct{}) bool {
	needed := try > freeTries
	for _, e := range s.open {
		kind := e.Base().fate.kind
		needed = needed || kind == again || kind == unready || kind == demoted
	}
	if !needed {
		return true
	}
	wait := min(firstPause<<min(try-1, 10), longestPause)
	if time.Until(until) <= wait {
		return false
	}
	select {
	case <-time.After(wait):
		return true
	case <-stop:
		return false
	}
}

// reroute finds out how the open errands are to be sent now, and drops those that nobody waits for.
func (s *Sender[E]) reroute(ctx context.Context) {
	todo := s.open
	s.open = s.open[:0]
	now := time.Now()
	mended := make(map[*goredis.Client]error) // what was done once for all errands of a server
	for _, e := range todo {
		if s.courier.Gone(e, now) {
			continue
		}
		if err := s.aim(ctx, e.Base(), mended); err != nil {
			s.courier.Done(e, err)
			continue
		}
		if e.Base().fate.kind != further {
			s.resends.Resent.Add(1)
		}
		s.open = append(s.open, e)
	}
}

// aim gives an errand its next route.
func (s *Sender[E]) aim(ctx context.Context, e *Errand, mended map[*goredis.Client]error) error {
	client, redirects := e.Route.Client, s.servers.redirects
	switch {
	case e.fate.kind == further:
		return nil
	case e.fate.kind == unloaded && s.script != nil:
		if _, known := mended[client]; !known {
			mended[client] = s.script.load(ctx, client)
		}
		return mended[client]
	case e.fate.kind == moved, e.fate.kind == asked:
		if redirects == nil {
			return fmt.Errorf("%w: %s: %w", errMisrouted, s.servers.config.setCluster(), e.err)
		}
		if e.fate.kind == moved {
			redirects.Reload()
		}
		named, err := redirects.At(client, e.fate.addr)
		if err != nil {
			return err
		}
		e.Route = Route{Client: named, Asking: e.fate.kind == asked}
		s.resends.Redirected.Add(1)
		return nil
	}
	if _, known := mended[client]; !known && client != nil {
		mended[client] = nil
		if redirects != nil {
			redirects.Reload()
		}
		if e.fate.kind == demoted {
			Disconnect(ctx, client)
		}
	}
	return s.servers.find(e)
}

// find gives an errand the route to its owner. While a cluster is not known yet, it has none, and may be sent later.
func (s *Servers) find(e *Errand) error {
	owner, err := s.client(e.At)
	e.Route = Route{Client: owner}
	if errors.Is(err, errUnknownCluster) {
		e.Unanswered(Fate{kind: again}, err)
		return nil
	}
	return err
}

// Disconnect closes the connections to a server that nothing uses now: they lead to a replica, where new ones may lead
// to the primary. go-redis closes one, and none where a script hands the refusal on for each check.
func Disconnect(ctx context.Context, client *goredis.Client) {
	for range client.PoolStats().IdleConns {
		conn := client.EphemeralConn()
		err := conn.Ping(ctx).Err() // uses the connection
		_ = conn.Close()
		if err != nil {
			return
		}
	}
}
