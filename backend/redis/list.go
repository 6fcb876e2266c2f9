package redis

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/backend/window"
)

const (
	// pageSize is about how many keys a server is asked for at a time, during which it is blocked.
	pageSize = 100
	// listRest is the pause after a page as a multiple of the time that it took, so that a listing takes at most a
	// quarter of a server's time.
	listRest = 3
)

// List reads the keys of all servers at the same time, by SCAN. On each it begins where the last listing of this
// process ended: cursors stay valid.
func (s *Store) List(ctx context.Context, ask backend.Listing) (backend.Listed, error) {
	return s.list(ctx, ask, s.keys.listing(), s.keys)
}

// glanceReader reads the answer to a command, by the server's clock.
type glanceReader func(now window.Instant) ([]backend.Glance, error)

// list lists keys of some kinds, for which it may use these commands; a key is of the first one that knows it.
func (s *Store) list(ctx context.Context, ask backend.Listing, commands []string, kinds ...keys) (backend.Listed, error) {
	if s.Closed() {
		return backend.Listed{}, backend.ErrClosed
	}
	rights := topology.Rights{Rules: append([]string{"+scan", "+dbsize"}, commands...), Note: "for weir counters top"}
	servers := s.servers.For(rights, slog.New(slog.DiscardHandler))
	asking, cancel := context.WithTimeout(ctx, s.servers.Timeout())
	defer cancel()
	all, err := servers.All(asking)
	if err != nil {
		return backend.Listed{}, errors.Join(err, ctx.Err())
	}
	l := &listing{store: s, servers: servers, kinds: kinds, ask: ask, until: time.Now().Add(ask.For)}
	parts, failures := make([]backend.Listed, len(all)), make([]error, len(all), len(all)+1)
	var running sync.WaitGroup
	for i := range all {
		running.Go(func() { parts[i], failures[i] = l.list(ctx, all[i]) })
	}
	running.Wait()
	listed := backend.Listed{Complete: true}
	for i := range parts {
		listed.Add(parts[i])
	}
	return listed, errors.Join(append(failures, ctx.Err())...)
}

// listing is a listing under way on several servers.
type listing struct {
	store   *Store
	servers *topology.Servers
	kinds   []keys
	until   time.Time

	mu  sync.Mutex // of the functions of ask
	ask backend.Listing
}

// list lists the keys of one server. Its error names it.
func (l *listing) list(ctx context.Context, server topology.Server) (backend.Listed, error) {
	before, _ := l.store.places.Load(server.Name)
	w := &walk{listing: l, server: server, seed: maphash.MakeSeed()}
	w.cursor, _ = before.(uint64)
	w.whole = w.cursor == 0
	for more := true; more || len(w.found) > 0; {
		if err := w.turn(ctx, more); err != nil {
			l.store.places.Delete(server.Name)
			return w.result(false), err
		}
		l.store.places.Store(server.Name, w.cursor)
		left := time.Until(l.until)
		more = more && !w.over && left > w.rest
		pause(ctx, min(w.rest, left))
		if ctx.Err() != nil {
			return w.result(false), nil
		}
	}
	return w.result(w.over), nil
}
