package counter

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter/incr"
	"github.com/weirproxy/weir/descriptors"
)

// incremental counts in keys of envoyproxy/ratelimit, by INCRBY.
type incremental struct {
	store  *Store
	keys   incr.Keys
	getsNo sync.Map // of addresses of servers that refuse GET
}

// newPlain makes a store of keys of envoyproxy/ratelimit on servers, which it closes in the end.
func newPlain(servers *redis.Servers, now func() string, keys incr.Keys) *Store {
	s := newStoreOn(servers, now)
	s.method = &incremental{store: s, keys: keys}
	return s
}

// plainRights are what counting in such keys needs of any server.
func plainRights() redis.Rights {
	return redis.Rights{Rules: []string{"~*", "+incrby", "+expire", "+get", "+ping"}}
}

// increment is how far a check of such a key has come.
type increment struct {
	look     bool
	by       int64 // what it adds
	ttl      blob
	rest     time.Duration // of the window
	counted  bool          // it is, or was looked at
	left     int64         // what it left there
	back     int64         // to add besides, since that went too far
	expiring bool          // the key has its TTL, or none is to be had
}

// put writes the name of a check's key, what it adds, and the TTL.
func (m *incremental) put(text []byte, c *backend.Check, a *ask) []byte {
	stem, _ := descriptors.PlainStem(c.Key)
	w := m.keys.Window(&c.Limits[0], m.store.clockHere())
	a.look, a.by, a.rest = c.Op == backend.Look, incr.By(c), w.Rest
	text, a.key = cut(w.AppendKey(text, stem), len(text))
	text, a.arg = cut(strconv.AppendInt(text, a.by, 10), len(text))
	text, a.ttl = cut(strconv.AppendInt(text, m.keys.TTL(w), 10), len(text))
	return text
}

// clockHere returns the time by the clock of this process, or that of a test.
func (s *Store) clockHere() time.Time {
	text := s.now()
	if text == "" {
		return time.Now()
	}
	micros, _ := strconv.ParseInt(text, 10, 64) // that of a test is right
	return time.UnixMicro(micros)
}

// decide reads the answer to a check.
func (m *incremental) decide(a *ask, c *backend.Check) (backend.Decision, error) {
	return incr.Decide(c, a.left, a.rest), nil
}

func (m *incremental) form() form { return &increments{incremental: m} }

// probePlain asks a server whether it answers: counting needs no more, and envoyproxy/ratelimit asks no more either.
func (s *Store) probePlain(ctx context.Context, on *redis.Servers, server redis.Server) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if err := server.Client.Ping(ctx).Err(); err != nil {
		return on.Diagnose(server, "ping", err)
	}
	if l, known := s.lanes.Load(server.Client); known {
		return l.(*lane).slow()
	}
	return nil
}

// inspect reads the count of a key's window.
func (m *incremental) inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	stem, _ := descriptors.PlainStem(key)
	counts := make([]backend.LimitCount, len(limits))
	for i := range limits {
		now := m.store.clockHere()
		w := m.keys.Window(&limits[i], now)
		name := string(w.AppendKey(nil, stem))
		get := goredis.NewStringCmd(ctx, "get", name)
		if err := m.store.ask(ctx, name, get); err != nil {
			return nil, err
		}
		n, err := strconv.ParseInt(cmp.Or(get.Val(), "0"), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("redis: key %q: %w", name, errNoNumber)
		}
		counts[i] = incr.Count(limits[i], w, n, now)
	}
	return counts, nil
}

// reset removes a key of each window that it may be of now.
func (m *incremental) reset(ctx context.Context, key []byte) error {
	stem, _ := descriptors.PlainStem(key)
	for _, begin := range incr.Begins(m.store.clockHere()) {
		name := string(incr.Window{Begin: begin}.AppendKey(nil, stem))
		err := m.store.ask(ctx, name, goredis.NewIntCmd(ctx, "del", name))
		if err != nil && redis.Forbidden(err) {
			return fmt.Errorf("%w; to reset counters it also needs +del", err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
