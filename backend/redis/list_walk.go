package redis

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// walk is a listing on its way through the keys of one server.
type walk struct {
	*listing
	server topology.Server
	cursor uint64        // where the next page begins
	whole  bool          // the pages so far began at the beginning
	over   bool          // and came to the end
	sized  bool          // the server has told how many keys it has
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

// turn asks the server once: for what was found in the last page and, if there is to be more, for the next one.
func (w *walk) turn(ctx context.Context, more bool) error {
	ctx, cancel := context.WithTimeout(ctx, w.servers.Timeout())
	defer cancel()
	pipe := w.server.Client.Pipeline()
	var size *goredis.IntCmd
	var page *goredis.ScanCmd
	var must []goredis.Cmder // have an answer
	if !w.sized {
		size = pipe.DBSize(ctx)
		must = append(must, size)
	}
	clock, end := goredis.NewTimeCmd(ctx, "time"), goredis.NewTimeCmd(ctx, "time")
	timed := w.store.now == nil && slices.ContainsFunc(w.found, func(k foundKey) bool { return k.timed })
	if timed {
		_ = pipe.Process(ctx, clock) // queues it, as the others do
		must = append(must, clock, end)
	}
	for _, k := range w.found {
		_ = pipe.Process(ctx, k.command)
	}
	if more {
		page = pipe.Scan(ctx, w.cursor, "", pageSize)
		must = append(must, page)
	}
	if timed {
		_ = pipe.Process(ctx, end)
	}
	sent := time.Now()
	_, _ = pipe.Exec(ctx) // each command has its own error
	answered := time.Now()
	for _, c := range must {
		if err := c.Err(); err != nil {
			return w.servers.Diagnose(w.server, c.Name(), err)
		}
	}
	if size != nil {
		w.sized, w.listed.Held = true, uint64(size.Val())
	}
	if err := w.show(window.At(w.clock(clock))); err != nil {
		return err
	}
	w.found = w.found[:0]
	if page != nil {
		names, next := page.Val()
		w.take(ctx, names)
		w.over = next == 0 && w.whole
		if next == 0 && !w.whole { // what came before the first page comes now
			w.whole = true
			slices.Sort(w.tail)
		}
		w.cursor = next
	}
	busy := answered.Sub(sent)
	if timed { // without the way there and back
		busy = max(0, min(busy, end.Val().Sub(clock.Val())))
	}
	w.rest = max(listRest*busy, time.Since(answered))
	return nil
}

// clock returns the time of the server if it was asked, else that of a test or of this process.
func (w *walk) clock(server *goredis.TimeCmd) time.Time {
	if t := server.Val(); !t.IsZero() {
		return t
	}
	return w.store.clock()
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
