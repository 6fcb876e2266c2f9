package redis

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/ratelimit"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

// byUnit counts checks whose limits are all per second in the second Redis, all others, mixed ones too, in the first.
type byUnit struct{ pair }

// PerSecond makes a store of one for limits per second, and one for all others.
func PerSecond(main, perSecond Counters) Counters { return byUnit{pair{main, perSecond}} }

func perSecond(limits []descriptors.Limit) bool {
	return !slices.ContainsFunc(limits, func(l descriptors.Limit) bool { return l.Unit != descriptors.Second })
}

// Decide is that of [backend.Counter].
func (s byUnit) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	return s.decide(ctx, checks, out, func(c *backend.Check) bool { return perSecond(c.Limits) })
}

// Inspect asks the store that counts under these limits.
func (s byUnit) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	return s.of(perSecond(limits)).Inspect(ctx, key, limits)
}

// Reset forgets a key in both stores: it may have had a limit of another unit.
func (s byUnit) Reset(ctx context.Context, key []byte) error {
	return errors.Join(s.first.Reset(ctx, key), s.second.Reset(ctx, key))
}

// byFormat counts keys of envoyproxy/ratelimit in the first store, weir's in the second, on the same servers.
type byFormat struct{ pair }

// OpenRatelimit makes a store that counts keys of envoyproxy/ratelimit by INCRBY, with that program's rights, and
// others by the script, which is loaded when a check needs it. Until then servers are healthy that answer PING.
func OpenRatelimit(c Config, keys ratelimit.Keys) (Counters, error) {
	servers, err := topology.Connect(c.Redis, ratelimitRights)
	if err != nil {
		return nil, err
	}
	log := servers.Config.Log.With(slog.String("keys", descriptors.KeysOfWeir.String()))
	// Redis refuses a pattern of keys to a user of all keys, as counting by INCRBY needs.
	beside := servers.WithRights(strings.TrimPrefix(rights, "~weir:* "), log)
	first, second := newRatelimit(servers, c, keys), newScripted(beside, c, c.newScript())
	first.Watch(first.probe)
	return byFormat{pair{first, second}}, nil
}

func ofWeir(key []byte) bool {
	_, plain := descriptors.RatelimitKey(key)
	return !plain
}

// Decide is that of [backend.Counter].
func (s byFormat) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if err := ratelimit.Validate(checks); err != nil {
		return err
	}
	return s.decide(ctx, checks, out, func(c *backend.Check) bool { return ofWeir(c.Key) })
}

// Inspect asks the store that counts a key.
func (s byFormat) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	return s.of(ofWeir(key)).Inspect(ctx, key, limits)
}

// Reset deletes a key in the store that counts it.
func (s byFormat) Reset(ctx context.Context, key []byte) error {
	return s.of(ofWeir(key)).Reset(ctx, key)
}

// pair is two stores as one.
type pair struct{ first, second Counters }

// of returns one of the stores. A [Store] that was only made begins.
func (p pair) of(second bool) Counters {
	if !second {
		return p.first
	}
	if s, ok := p.second.(*Store); ok {
		s.begin()
	}
	return p.second
}

// decide asks both stores at the same time, each about its own checks, or only the one that has all of them.
func (p pair) decide(ctx context.Context, checks []backend.Check, out []backend.Decision, isSecond func(*backend.Check) bool) error {
	ofSecond := 0
	for i := range checks {
		if isSecond(&checks[i]) {
			ofSecond++
		}
	}
	switch {
	case ofSecond == 0, ofSecond == len(checks):
		return p.of(ofSecond > 0).Decide(ctx, checks, out)
	case len(out) < len(checks):
		return backend.Validate(checks, out)
	}
	var first, second backend.Part
	for i := range checks {
		if isSecond(&checks[i]) {
			second.Add(checks, i)
		} else {
			first.Add(checks, i)
		}
	}
	done := make(chan error, 1)
	go func() { done <- p.of(true).Decide(ctx, second.Checks, second.Out) }()
	err := cmp.Or(p.first.Decide(ctx, first.Checks, first.Out), <-done)
	first.HandOver(out)
	second.HandOver(out)
	return err
}

// Close closes both stores.
func (p pair) Close() error {
	return errors.Join(p.second.Close(), p.first.Close())
}

// Answers returns nil if both stores could count when they were last probed.
func (p pair) Answers() error { return cmp.Or(p.first.Answers(), p.second.Answers()) }

// Await waits until both stores are ready.
func (p pair) Await(ctx context.Context) error {
	return cmp.Or(p.first.Await(ctx), p.second.Await(ctx))
}

// Servers returns the state of each server, the worse one if the stores differ.
func (p pair) Servers() map[string]backend.ServerState {
	known := p.first.Servers()
	for name, state := range p.second.Servers() {
		if before, there := known[name]; !there || before == backend.ServerUp || state == backend.ServerAway {
			known[name] = state
		}
	}
	return known
}

// Notify is that of [backend.Health].
func (p pair) Notify(c chan<- struct{}) {
	p.first.Notify(c)
	p.second.Notify(c)
}

// Replicas returns how many processes live by the store that knows of most.
func (p pair) Replicas() (alive int, all bool) {
	alive, all = p.first.Replicas()
	other, known := p.second.Replicas()
	return max(alive, other), all || known
}

// Stats returns the sums of both stores.
func (p pair) Stats() pipeline.Stats {
	sum := p.first.Stats()
	sum.Add(p.second.Stats())
	return sum
}
