package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// pipelined is how many INCRBYs go to Redis at once when one of them is measured.
const pipelined = 32

// maxCostTime bounds for how long a store's smallest command is measured.
const maxCostTime = time.Second

// redisServer is one that weir counts in, and that keeps nothing on disk.
type redisServer struct {
	*redistest.Server
	pid int
}

// startRedis runs a redis-server with its files in a new folder.
func startRedis(dir string) (*redisServer, error) {
	server, err := redistest.StartSingle(dir)
	if err != nil {
		return nil, errors.Join(err, errors.New("make tools installs redis-server; --only leaves the scenarios on Redis out"))
	}
	info, err := server.Info(context.Background(), "server")
	pid, noNumber := strconv.Atoi(info["process_id"])
	if err := errors.Join(err, noNumber); err != nil {
		server.Close()
		return nil, fmt.Errorf("asking redis-server for its process: %w", err)
	}
	return &redisServer{server, pid}, nil
}

// cpu returns the processor time that the server has used so far.
func (s *redisServer) cpu() (time.Duration, error) { return cpuTime(s.pid) }

// store is what weir counts in. The cost of its smallest command is the measure of what requests cost it.
type store interface {
	cpu() (time.Duration, error)
	commandCost(ctx context.Context, duration time.Duration) (micros float64, err error)
}

// commandCost measures what one INCRBY costs the server, in microseconds of its CPU, when a client sends 32 at a time.
// They count on keys of their own, as many as the scenarios have.
func (s *redisServer) commandCost(ctx context.Context, duration time.Duration) (micros float64, err error) {
	next := 0
	send := func() error {
		p := s.Client().Pipeline()
		for range pipelined {
			p.IncrBy(ctx, fmt.Sprintf("bench:incrby:%05d", next%keys), 1)
			next++
		}
		_, err := p.Exec(ctx)
		return err
	}
	for next < keys && err == nil { // make the keys
		err = send()
	}
	return costOf(s, send, err, duration)
}

// costOf returns the CPU of a store, in microseconds, for one of the commands that send sends.
func costOf(s store, send func() error, err error, duration time.Duration) (micros float64, _ error) {
	sent := 0
	before, errBefore := s.cpu()
	for until := time.Now().Add(min(duration, maxCostTime)); err == nil && (sent == 0 || time.Now().Before(until)); {
		err = send()
		sent += pipelined
	}
	after, errAfter := s.cpu()
	if err := errors.Join(err, errBefore, errAfter); err != nil {
		return 0, fmt.Errorf("measure what the store's smallest command costs: %w", err)
	}
	return float64((after - before).Nanoseconds()) / 1e3 / float64(sent), nil
}
