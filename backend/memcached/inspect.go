package memcached

import (
	"cmp"
	"context"
	"fmt"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/ratelimit"
	"github.com/weirproxy/weir/descriptors"
)

// command sends a command about a key for operators, and calls read to read the reply.
func (s *Store) command(ctx context.Context, name string, at location, read func(c *conn) error) error {
	err := at.server.withConn(ctx, s.config.Timeout, func(c *conn) error {
		c.write(name, " ", at.name, "\r\n")
		if err := c.out.Flush(); err != nil {
			return err
		}
		return read(c)
	})
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, at.server.Name, err)
	}
	return nil
}

// readAt reads a value, and calls use with it if it exists.
func (s *Store) readAt(ctx context.Context, at location, use func(data []byte) error) error {
	return s.command(ctx, "gets", at, func(c *conn) error { return c.readOne(use) })
}

// currentServers returns the servers, at least one, or an error.
func (s *Store) currentServers() (serverList, error) {
	switch servers := *s.servers.Load(); {
	case s.engine.Closed():
		return nil, backend.ErrClosed
	case len(servers) == 0:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, errNoServers)
	default:
		return servers, nil
	}
}

// Inspect reads the counts of a key, by the key's clock; those of envoyproxy/ratelimit's keys by this process's.
func (s *Store) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	servers, err := s.currentServers()
	if err != nil {
		return nil, err
	}
	if stem, ratelimits := descriptors.RatelimitKey(key); ratelimits {
		return s.config.Keys.Counts(limits, s.config.now, func(w ratelimit.Window) (n int64, err error) {
			_, at := servers.locateRatelimit(nil, stem, w)
			err = s.readAt(ctx, at, func(data []byte) (unread error) {
				n, unread = parseCount(data)
				return unread
			})
			return n, err
		})
	}
	var e entry
	_, at := servers.locateWeir(nil, key, "")
	if err := s.readAt(ctx, at, e.read); err != nil {
		return nil, err
	}
	return e.states.Counts(limits, e.clock(s)), nil
}

// Reset removes a key. Of envoyproxy/ratelimit's keys it removes that of the present window of each unit.
func (s *Store) Reset(ctx context.Context, key []byte) error {
	servers, err := s.currentServers()
	if err != nil {
		return err
	}
	stem, ratelimits := descriptors.RatelimitKey(key)
	if !ratelimits {
		_, at := servers.locateWeir(nil, key, "")
		return s.remove(ctx, at)
	}
	for _, w := range ratelimit.Windows(s.config.now()) {
		_, at := servers.locateRatelimit(nil, stem, w)
		if err := s.remove(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) remove(ctx context.Context, at location) error {
	return s.command(ctx, "delete", at, func(c *conn) error {
		_, err := c.readWord("DELETED", "NOT_FOUND")
		return err
	})
}

// ProbeErr returns nil if a server could count when it was last used, else why none could.
func (s *Store) ProbeErr() error {
	why := fmt.Errorf("%w: no server has answered yet", ErrUnavailable)
	for _, srv := range *s.servers.Load() {
		if srv.state() == backend.ServerUp {
			return nil
		}
		if away := srv.Away(); away != nil {
			why = away
		}
	}
	return why
}

// Await waits until a server has answered.
func (s *Store) Await(ctx context.Context) error {
	select {
	case <-s.ready.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Servers returns the state of each server.
func (s *Store) Servers() map[string]backend.ServerState {
	states := make(map[string]backend.ServerState)
	for _, srv := range *s.servers.Load() {
		states[srv.Name] = srv.state()
	}
	if len(states) == 0 {
		states[cmp.Or(s.config.SRV, "memcached")] = backend.ServerAway
	}
	return states
}

// Notify implements [backend.Health].
func (s *Store) Notify(c chan<- struct{}) { s.engine.Notify(c) }

// Replicas returns 0: memcached cannot list keys, so processes cannot find each other.
func (s *Store) Replicas() (alive int, complete bool) { return 0, false }
