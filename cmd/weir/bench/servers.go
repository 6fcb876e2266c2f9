package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// servers are what the scenarios run against. Those that none needs are nil.
type servers struct {
	floor *server
	main  *server // weir on the memory backend, or what serves at --addr
	redis *server // weir on Redis
	store *store  // that Redis
}

// startServers starts what the chosen scenarios need. The caller closes what it returns, also beside an error.
func startServers(ctx context.Context, o options, chosen []scenario, dir string, progress io.Writer) (servers, error) {
	var s servers
	needMain, needRedis := false, false
	for _, one := range chosen {
		needRedis = needRedis || one.Redis
		needMain = needMain || !one.Redis && one.Name != floorName
	}
	var err error
	if needRedis { // first, as it is the only one that may be missing on the machine
		if s.store, err = startStore(ctx, dir); err != nil {
			return s, err
		}
	}
	if s.floor, err = startFloor(ctx, o.Connections, dir); err != nil {
		return s, err
	}
	if needMain && o.Addr != "" {
		running := &server{name: o.Addr, addr: o.Addr, pid: o.PID}
		s.main, err = connect(ctx, running, o.Connections)
		return s, err
	}
	if !needMain && !needRedis {
		return s, nil
	}
	if o.Binary == "" {
		_, _ = fmt.Fprintln(progress, "building weir")
		if o.Binary, err = buildWeir(ctx, dir); err != nil {
			return s, err
		}
	}
	err = s.startWeirs(ctx, o, needMain, dir)
	return s, err
}

// startWeirs starts a weir on the memory backend, if it is needed, and one on the store, if there is one.
func (s *servers) startWeirs(ctx context.Context, o options, onMemory bool, dir string) (err error) {
	if onMemory {
		if s.main, err = startWeir(ctx, o.Binary, o.Env, o.Connections, dir); err != nil {
			return err
		}
	}
	if s.store == nil {
		return nil
	}
	dir = filepath.Join(dir, "redis")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("weir on Redis: %w", err)
	}
	env := append([]string{"BACKEND_TYPE=redis", "REDIS_URL=redis://" + s.store.addr}, o.Env...)
	if s.redis, err = startWeir(ctx, o.Binary, env, o.Connections, dir); err != nil {
		return fmt.Errorf("weir on Redis: %w", err)
	}
	s.redis.store = s.store
	return nil
}

// of is the server that a scenario runs against.
func (s servers) of(one scenario) *server {
	switch {
	case one.Name == floorName:
		return s.floor
	case one.Redis:
		return s.redis
	default:
		return s.main
	}
}

// name is what was measured, beside the floor.
func (s servers) name() string {
	switch {
	case s.main != nil:
		return s.main.name
	case s.redis != nil:
		return s.redis.name
	default:
		return s.floor.name
	}
}

// close stops all, weir before the Redis that it counts in.
func (s servers) close() {
	for _, one := range []*server{s.redis, s.main, s.floor} {
		if one != nil {
			one.close()
		}
	}
	if s.store != nil {
		s.store.close()
	}
}
