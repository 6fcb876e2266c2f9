package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// servers are what the scenarios run against. Those that none needs are nil.
type servers struct {
	floor *server
	main  *server // weir on the memory backend, or what serves at --addr
	redis *server // weir on Redis
	store *store  // that Redis

	measuring map[history]*server // weirs on the memory backend that do something with the history
	hole      *hole
}

// startServers starts what the chosen scenarios need. The caller closes what it returns, also beside an error.
func startServers(ctx context.Context, o options, chosen []scenario, dir string, progress io.Writer) (servers, error) {
	var s servers
	needMain, needRedis, needHistory := false, false, false
	for _, one := range chosen {
		needRedis = needRedis || one.Redis
		needHistory = needHistory || one.History != ""
		needMain = needMain || !one.Redis && one.History == "" && one.Name != floorName
	}
	var err error
	if needRedis || needHistory { // first, as it is the only one that may be missing on the machine
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
	if !needMain && !needRedis && !needHistory {
		return s, nil
	}
	if o.Binary == "" {
		_, _ = fmt.Fprintln(progress, "building weir")
		if o.Binary, err = buildWeir(ctx, dir); err != nil {
			return s, err
		}
	}
	if err = s.startWeirs(ctx, o, needMain, needRedis, dir); err != nil {
		return s, err
	}
	return s, s.startMeasuring(ctx, o, chosen, dir)
}

// startWeirs starts a weir on the memory backend and one on the store, if they are needed.
func (s *servers) startWeirs(ctx context.Context, o options, onMemory, onRedis bool, dir string) (err error) {
	if onMemory {
		if s.main, err = startWeir(ctx, o.Binary, o.Env, o.Connections, dir); err != nil {
			return err
		}
	}
	if !onRedis {
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

// of returns the server that a scenario runs against.
func (s servers) of(one scenario) *server {
	switch {
	case one.Name == floorName:
		return s.floor
	case one.Redis:
		return s.redis
	case one.History != "":
		return s.measuring[one.History]
	default:
		return s.main
	}
}

// name returns what was measured, beside the floor.
func (s servers) name() string {
	switch {
	case s.main != nil:
		return s.main.name
	case s.redis != nil:
		return s.redis.name
	case len(s.measuring) > 0:
		return "weir"
	default:
		return s.floor.name
	}
}

// close stops all, weir before the Redis that it counts in.
func (s servers) close() {
	for _, one := range append(slices.Collect(maps.Values(s.measuring)), s.redis, s.main, s.floor) {
		if one != nil {
			one.close()
		}
	}
	if s.hole != nil {
		s.hole.close()
	}
	if s.store != nil {
		s.store.close()
	}
}
