package counter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter/incr"
	"github.com/weirproxy/weir/backend/redis/counter/script"
	"github.com/weirproxy/weir/descriptors"
)

// Mixed counts a check that has a key of envoyproxy/ratelimit's by INCRBY, as that program does and with no more rights,
// and others by the script. The servers learn nothing of the script before a check needs it.
type Mixed struct {
	plain, scripted *Store
	parted          parted
	start           sync.Once   // of scripted's probes and heartbeats
	used            atomic.Bool // scripted is
}

var (
	_ backend.Counter   = (*Mixed)(nil)
	_ backend.Inspector = (*Mixed)(nil)
	_ backend.Lister    = (*Mixed)(nil)
)

// OpenMixed makes a store as Open does. Its health is that of the servers that count by INCRBY: each has answered PING.
func OpenMixed(c Config, keys incr.Keys) (*Mixed, error) {
	servers, err := redis.Connect(c.Redis, plainRights())
	if err != nil {
		return nil, err
	}
	log := servers.Log().With(slog.String("keys", descriptors.KeysOfWeir.String()))
	m := &Mixed{
		plain:    newPlain(servers, c.Now, keys),
		scripted: newStore(servers.For(rightsBeside(), log), c.Now, newScript(), language{script.AppendKey, script.AppendArg, script.Decode}),
	}
	m.plain.meter, m.scripted.meter = c.Meter, c.Meter
	m.plain.beside, m.scripted.beside = m.scripted, m.plain
	m.plain.health = servers.Watch(m.plain.probePlain)
	return m, nil
}

// needed returns the store by the script, which is in use from now on.
func (m *Mixed) needed() *Store {
	m.start.Do(func() {
		m.scripted.watch()
		m.used.Store(true)
	})
	return m.scripted
}

// of returns the store that counts a key.
func (m *Mixed) of(key []byte) *Store {
	if _, plain := descriptors.PlainStem(key); plain {
		return m.plain
	}
	return m.needed()
}

// Decide asks by both ways at the same time, each for its own checks.
func (m *Mixed) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if err := backend.Valid(checks, out); err != nil {
		return err
	}
	scripted := 0
	for i := range checks {
		c := &checks[i]
		if _, plain := descriptors.PlainStem(c.Key); !plain {
			scripted++
		} else if len(c.Limits) != 1 || c.Limits[0].Algorithm != descriptors.FixedWindow || !c.Charge.Always(&c.Limits[0]) {
			return fmt.Errorf("backend: a check with a key of envoyproxy/ratelimit, which cannot count it under %v", c.Limits)
		}
	}
	switch scripted {
	case 0:
		return m.plain.Decide(ctx, checks, out)
	case len(checks):
		return m.needed().Decide(ctx, checks, out)
	}
	return m.parted.decide(ctx, checks, out, isScripted, m.plain.Decide, m.needed().Decide)
}

func isScripted(c *backend.Check) bool {
	_, plain := descriptors.PlainStem(c.Key)
	return !plain
}

// Inspect reads what a key holds: one of envoyproxy/ratelimit's by the clock of this process.
func (m *Mixed) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	return m.of(key).Inspect(ctx, key, limits)
}

// Reset removes a key.
func (m *Mixed) Reset(ctx context.Context, key []byte) error { return m.of(key).Reset(ctx, key) }

// List goes once through the keys of the servers, of both kinds: nobody else tells whether the script has counted there.
func (m *Mixed) List(ctx context.Context, ask backend.Listing) (backend.Listed, error) {
	rights := listingRights("+get")
	if m.used.Load() {
		rights = listingRights("+get", "+hmget", "+time")
	}
	return m.plain.list(ctx, ask, rights, m.scripted.method.(scripted), m.plain.method.(*incremental))
}

// InUse returns the stores that count here now: the one by INCRBY, and the one by the script once a check needed it.
func (m *Mixed) InUse() []*Store {
	if m.used.Load() {
		return []*Store{m.plain, m.scripted}
	}
	return []*Store{m.plain}
}

// Close ends both ways of counting, as a Store's does.
func (m *Mixed) Close() error {
	m.start.Do(func() {}) // nothing begins any more
	return errors.Join(m.scripted.Close(), m.plain.Close())
}
