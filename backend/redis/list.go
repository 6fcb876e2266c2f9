package redis

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
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
	return s.list(ctx, ask, s.keys)
}

// glanceReader reads the answer to a command, by the server's clock.
type glanceReader func(now window.Instant) ([]backend.Glance, error)

// list lists keys of some kinds; a key is of the first one that knows it.
func (s *Store) list(ctx context.Context, ask backend.Listing, kinds ...keys) (backend.Listed, error) {
	if s.Closed() {
		return backend.Listed{}, backend.ErrClosed
	}
	rights := topology.Rights{Rules: []string{"+scan", "+dbsize"}, Note: "for weir counters top"}
	for _, kind := range kinds {
		rights.Rules = append(rights.Rules, kind.listing()...)
	}
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
	if err := w.size(ctx); err != nil {
		return w.listed, err
	}
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

// walk is a listing on its way through the keys of one server.
type walk struct {
	*listing
	server topology.Server
	cursor uint64        // where the next page begins
	whole  bool          // the pages so far began at the beginning
	over   bool          // and came to the end
	rest   time.Duration // the pause before the next turn, at least as long as this process was busy
	found  []foundKey
	listed backend.Listed

	seed maphash.Seed
	tail []uint64 // hashes of the names on pages before those from the beginning on, then sorted: they come again
}

// foundKey is a key with limits that was in the last page, and is read with the next.
type foundKey struct {
	key     []byte // of the check
	limits  []descriptors.Limit
	timed   bool // it counts by the clock of the server
	command goredis.Cmder
	read    glanceReader
}

// size asks the server how many keys it has.
func (w *walk) size(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.servers.Timeout())
	defer cancel()
	size := w.server.Client.DBSize(ctx)
	w.listed.Held = uint64(size.Val())
	return w.servers.Diagnose(w.server, size.Name(), size.Err())
}

// turn asks the server once: for what was found in the last page and, if there is to be more, for the next one.
func (w *walk) turn(ctx context.Context, more bool) error {
	ctx, cancel := context.WithTimeout(ctx, w.servers.Timeout())
	defer cancel()
	clock, end := goredis.NewTimeCmd(ctx, "time"), goredis.NewTimeCmd(ctx, "time")
	page := goredis.NewScanCmd(ctx, nil, "scan", w.cursor, "count", pageSize)
	var before, read, after []goredis.Cmder
	if more {
		after = append(after, page)
	}
	timed := w.store.now == nil && slices.ContainsFunc(w.found, func(k foundKey) bool { return k.timed })
	if timed {
		before, after = append(before, clock), append(after, end)
	}
	for _, k := range w.found {
		read = append(read, k.command)
	}
	pipe, sent := w.server.Client.Pipeline(), time.Now()
	_ = pipe.BatchProcess(ctx, slices.Concat(before, read, after)...) // queues them
	_, _ = pipe.Exec(ctx)                                             // each command has its own error
	answered := time.Now()
	for _, c := range slices.Concat(before, after) {
		if err := c.Err(); err != nil {
			return w.servers.Diagnose(w.server, c.Name(), err)
		}
	}
	if err := w.show(window.At(cmp.Or(clock.Val(), w.store.clock()))); err != nil {
		return err
	}
	w.found = w.found[:0]
	if more {
		w.next(ctx, page)
	}
	busy := answered.Sub(sent)
	if timed { // without the way there and back
		busy = max(0, min(busy, end.Val().Sub(clock.Val())))
	}
	w.rest = max(listRest*busy, time.Since(answered))
	return nil
}

// next takes a page. What came before the first one comes after the last one.
func (w *walk) next(ctx context.Context, page *goredis.ScanCmd) {
	names, cursor := page.Val()
	w.take(ctx, names)
	w.cursor, w.over = cursor, cursor == 0 && w.whole
	if cursor == 0 && !w.whole {
		w.whole = true
		slices.Sort(w.tail)
	}
}

// show shows what has been read.
func (w *walk) show(now window.Instant) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.found {
		err := k.command.Err()
		if errors.Is(err, goredis.Nil) {
			err = nil
		}
		var reply goredis.Error
		if err != nil && (topology.Forbidden(err) || !errors.As(err, &reply)) {
			return w.servers.Diagnose(w.server, k.command.Name(), err)
		}
		var holds []backend.Glance
		if err == nil {
			holds, err = k.read(now)
		}
		if err != nil {
			w.listed.Unread++
			continue
		}
		w.ask.Visit(k.key, k.limits, holds)
	}
	return nil
}

// take finds the keys with limits in a page.
func (w *walk) take(ctx context.Context, names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		if w.again(name) {
			continue
		}
		w.listed.Seen++
		for _, kind := range w.kinds {
			key, own := kind.keyOf(name)
			if !own {
				continue
			}
			_, timed := kind.(scripted)
			if k := (foundKey{key: key, limits: w.ask.Limits(key), timed: timed}); len(k.limits) > 0 && w.owned(name) {
				if k.command, k.read = kind.glance(ctx, name, k.limits); k.command != nil {
					w.found = append(w.found, k)
				}
			}
			break
		}
	}
}

// again reports whether a name was on a page at the end, and comes again after the beginning: it would count twice.
func (w *walk) again(name string) bool {
	if w.whole && len(w.tail) == 0 {
		return false
	}
	hash := maphash.String(w.seed, name)
	if !w.whole {
		w.tail = append(w.tail, hash)
		return false
	}
	_, known := slices.BinarySearch(w.tail, hash)
	return known
}

// owned reports whether this server owns a key, as far as is known. Another node of a ring may still hold what it
// counted while the owner was away.
func (w *walk) owned(name string) bool {
	owner, err := w.servers.Owner([]byte(name))
	return err != nil || owner == w.server.Client
}

// result returns how far the walk came. A server may show keys twice while its table grows.
func (w *walk) result(complete bool) backend.Listed {
	listed := w.listed
	listed.Complete = complete
	if complete {
		listed.Held = listed.Seen
	}
	listed.Seen = min(listed.Seen, listed.Held)
	return listed
}
