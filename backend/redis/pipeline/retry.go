package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis/topology"
)

const (
	// maxTries bounds how often a check is sent. Redirects rarely need more than three tries.
	maxTries = 20
	// freeTries is how often a request is sent again without a pause, if its error asks for none.
	freeTries = 3
	// firstPause and longestPause bound the pauses before a request is sent again; each is twice the one before.
	firstPause, longestPause = time.Millisecond, 64 * time.Millisecond
)

// Route is the connection by which a request goes to a server.
type Route struct {
	Client *goredis.Client // nil while the owner of the key is unknown
	Asking bool            // after ASKING
}

// transport sends requests for a retry.
type transport interface {
	// exchange sends requests of one route, once, and notes in each its class and, if it has no answer, its error.
	exchange(ctx context.Context, route Route, requests []*Request)
	// done ends a request. err is nil if it has an answer.
	done(r *Request, err error)
}

// retry sends requests until each has an answer or is given up: it follows redirects, loads a missing script, and
// pauses where a server needs time. A request is sent again only if its class allows it. A retry is for one goroutine.
type retry struct {
	servers   *topology.Servers
	transport transport
	script    *Script // nil if none can be missing
	maxTries  int     // 0: bounded by time only

	open, sameRoute, scratch []*Request
}

// send sends requests, in their order, until each is answered or given up. It does not pause beyond the deadline of
// the last caller, nor after stop is closed. ctx bounds each exchange.
func (rt *retry) send(ctx context.Context, requests []*Request, deadline time.Time, stop <-chan struct{}) {
	rt.open = append(rt.open[:0], requests...)
	for try := 1; ; try++ {
		rt.exchange(ctx)
		if len(rt.open) == 0 {
			return
		}
		if try == rt.maxTries || !rt.pause(try, deadline, stop) {
			break
		}
		rt.reroute(ctx)
	}
	for _, r := range rt.open {
		rt.transport.done(r, r.State.err)
	}
}

// exchange sends each open request once, by its route. Those that may be sent again stay open.
func (rt *retry) exchange(ctx context.Context) {
	todo := rt.open
	rt.open, rt.scratch = rt.scratch[:0], todo
	for len(todo) > 0 {
		route, rest := todo[0].State.Route, todo[:0]
		rt.sameRoute = rt.sameRoute[:0]
		for _, r := range todo {
			if r.State.Route == route {
				rt.sameRoute = append(rt.sameRoute, r)
			} else {
				rest = append(rest, r)
			}
		}
		todo = rest
		if route.Client != nil {
			rt.transport.exchange(ctx, route, rt.sameRoute)
		}
		for _, r := range rt.sameRoute {
			if r.State.class.kind == classAnswered || r.State.class.kind == classFinal {
				rt.transport.done(r, r.State.err)
			} else {
				rt.open = append(rt.open, r)
			}
		}
	}
}

// pause waits before the open requests are sent again, if they need it. It reports whether there is time to send them.
func (rt *retry) pause(try int, deadline time.Time, stop <-chan struct{}) bool {
	needed := try > freeTries
	for _, r := range rt.open {
		needed = needed || r.State.class.kind == classRetryable || r.State.class.notReady()
	}
	if !needed {
		return true
	}
	wait := min(firstPause<<min(try-1, 10), longestPause)
	if time.Until(deadline) <= wait {
		return false
	}
	select {
	case <-time.After(wait):
		return true
	case <-stop:
		return false
	}
}

// reroute gives the open requests their next routes, and ends those that have none.
func (rt *retry) reroute(ctx context.Context) {
	todo := rt.open
	rt.open = rt.open[:0]
	repaired := make(map[*goredis.Client]error) // by server, the result of its one repair
	for _, r := range todo {
		if err := rt.nextRoute(ctx, r, repaired); err != nil {
			rt.transport.done(r, err)
		} else {
			rt.open = append(rt.open, r)
		}
	}
}

func (rt *retry) nextRoute(ctx context.Context, r *Request, repaired map[*goredis.Client]error) error {
	client, class := r.State.Route.Client, r.State.class
	_, done := repaired[client]
	switch {
	case class.kind == classContinue:
		return nil
	case class.kind == classNoScript && rt.script != nil:
		if !done {
			repaired[client] = rt.script.reload(ctx, client)
		}
		return repaired[client]
	case class.kind == classMoved, class.kind == classAsk:
		named, err := rt.servers.Redirected(client, class.addr, class.kind == classMoved)
		if err != nil {
			return fmt.Errorf("%w: %w", err, r.State.err)
		}
		r.State.Route = Route{Client: named, Asking: class.kind == classAsk}
		return nil
	}
	if !done && client != nil {
		repaired[client] = nil
		rt.servers.Reload()
		if class.kind == classReadOnly {
			topology.Disconnect(ctx, client)
		}
	}
	return r.State.findOwner(rt.servers)
}

// findOwner routes a request to the owner of its key. Until the slots of a cluster are known, it leaves the request
// without a route and retryable.
func (q *RequestState) findOwner(servers *topology.Servers) error {
	owner, err := servers.Locate(q.Destination)
	q.Route = Route{Client: owner}
	if errors.Is(err, topology.ErrUnknownCluster) {
		q.class, q.err = Class{kind: classRetryable}, err
		return nil
	}
	return err
}
