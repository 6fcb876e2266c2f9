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
	// pageSize is how many keys a server is asked for at a time, about: what it answers while it does nothing else.
	pageSize = 100
	// listRest is how many times as long as a page took a listing then leaves its server alone, so that it takes at
	// most a quarter of its time. That is by the clock of the server where it may be asked, else as it is seen from
	// here.
	listRest = 3
)

// List goes through the keys of all servers at the same time, by SCAN, page by page. On each it goes on where the last
// listing of this process ended there: a cursor that a server gave stays good.
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
	s.places.keep(all)
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
	w := &walk{listing: l, server: server, cursor: l.store.places.of(server.Name), seed: maphash.MakeSeed()}
	w.whole = w.cursor == 0
	for more := true; more || len(w.found) > 0; {
		if err := w.turn(ctx, more); err != nil {
			l.store.places.set(server.Name, 0)
			return w.result(false), err
		}
		l.store.places.set(server.Name, w.cursor)
		left := time.Until(l.until)
		more = more && !w.over && left > w.rest
		pause(ctx, min(w.rest, left))
		if ctx.Err() != nil {
			return w.result(false), nil
		}
	}
	return w.result(w.over), nil
}

// places are where the last listing ended on each server: a cursor, 0 for the beginning.
type places struct {
	mu      sync.Mutex
	cursors map[string]uint64
}

func (p *places) of(server string) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cursors[server]
}

func (p *places) set(server string, cursor uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cursors[server] = cursor
}

// keep forgets all servers but these.
func (p *places) keep(servers []topology.Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.cursors
	p.cursors = make(map[string]uint64, len(servers))
	for _, s := range servers {
		p.cursors[s.Name] = before[s.Name]
	}
}
