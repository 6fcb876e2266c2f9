package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// connections is how many there are to each server.
const connections = 2

// server is what the load is sent to.
type server struct {
	process *process.Process
	release []func() // gives its ports back
	conns   []*grpc.ClientConn
	store   store     // what weir counts in; nil for one that counts in memory
	others  []*server // that count in the same and get their share of the load
	port    int       // on which it serves
	debug   int       // the admin port
}

// start runs a server and opens connections to it. It is returned when it has said on each of them that it serves.
func start(ctx context.Context, name string, ports int, command func(ports []int) *exec.Cmd) (*server, error) {
	s := &server{}
	err := s.launch(ctx, name, ports, command)
	if err != nil {
		s.close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// launch gives the command so many ports; it serves on the first.
func (s *server) launch(ctx context.Context, name string, ports int, command func([]int) *exec.Cmd) error {
	var held []int
	for range ports {
		port, release, err := process.HoldPort()
		if err != nil {
			return err
		}
		held, s.release = append(held, port), append(s.release, release)
	}
	s.port, s.debug = held[0], held[ports-1]
	var err error
	if s.process, err = process.Launch(name, command(held), new(process.Output), ""); err != nil {
		return err
	}
	for range connections {
		conn, err := dial(fmt.Sprint("127.0.0.1:", held[0]))
		if err != nil {
			return err
		}
		s.conns = append(s.conns, conn)
		if err := s.process.Await(func() error { return serves(ctx, conn) }); err != nil || ctx.Err() != nil {
			return cmp.Or(err, ctx.Err())
		}
	}
	return nil
}

// serves asks for the server's health, unless nobody wants to know any more.
func serves(ctx context.Context, conn *grpc.ClientConn) error {
	answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if ctx.Err() != nil {
		return nil
	}
	if err == nil && answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		err = fmt.Errorf("it is %s", answer.GetStatus())
	}
	return err
}

// dial makes a connection of its own; one to a server that is only just starting is tried again soon.
func dial(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		}),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig())
}

// cpu returns the processor time that the server, and others with it, have used so far.
func (s *server) cpu() (sum time.Duration, err error) {
	for _, one := range append(s.others, s) {
		used, failed := cpuTime(one.process.Pid())
		sum, err = sum+used, cmp.Or(err, failed)
	}
	return sum, err
}

// close drops the connections and stops the server.
func (s *server) close() {
	for _, one := range s.others {
		one.close()
	}
	for _, conn := range s.conns {
		_ = conn.Close() // it fails only when closed twice, as one of others is
	}
	if s.process != nil {
		s.process.Kill()
	}
	for _, release := range s.release {
		release()
	}
}

// startFloor runs the floor server as a child of this binary.
func startFloor(ctx context.Context) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the bench binary: %w", err)
	}
	return start(ctx, "the floor", 1, func(ports []int) *exec.Cmd {
		cmd := exec.Command(self, floorArgument, fmt.Sprint("127.0.0.1:", ports[0]))
		cmd.Env = []string{} // as for weir; nil would hand on the bench's own
		return cmd
	})
}

// startWeir runs binary on the rules of descriptors.yaml, with its files in a folder of that name in dir. Nothing of the
// bench's own environment reaches it: a stray REDIS_URL or GOGC would change what is measured. extra (NAME=VALUE) comes
// last and so wins.
func startWeir(ctx context.Context, o options, dir, name string, extra ...string) (*server, error) {
	dir = filepath.Join(dir, name)
	config := filepath.Join(dir, "config")
	if err := os.MkdirAll(config, 0o755); err != nil {
		return nil, fmt.Errorf("weir: %w", err)
	}
	rules := descriptorFile
	if slices.Contains(extra, "BACKEND_TYPE=memcache") { // which counts none
		rules = bytes.ReplaceAll(rules, []byte("sliding_log"), []byte("sliding_window"))
	}
	if err := os.WriteFile(filepath.Join(config, "bench.yaml"), rules, 0o644); err != nil {
		return nil, fmt.Errorf("weir: %w", err)
	}
	return start(ctx, name, 3, func(ports []int) *exec.Cmd {
		cmd := exec.Command(o.Binary, "serve", "--config", config)
		cmd.Env = slices.Concat([]string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + dir,
			"GRPC_HOST=127.0.0.1", "HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1", fmt.Sprint("GRPC_PORT=", ports[0]),
			fmt.Sprint("PORT=", ports[1]), fmt.Sprint("DEBUG_PORT=", ports[2]),
			"BACKEND_TYPE=memory", "DATA_DIR=" + filepath.Join(dir, "data"), "HISTORY=false",
		}, extra, o.Env)
		return cmd
	})
}

// servers are what the scenarios run against, by their place. Those that none needs are not there.
type servers struct {
	at        map[place]*server
	redis     *redisServer
	memcached *memcachedServer
}

// startServers starts what the chosen scenarios need. The caller closes what it returns, also beside an error.
func startServers(ctx context.Context, o options, chosen []scenario, dir string) (*servers, error) {
	s := &servers{at: make(map[place]*server)}
	needed := make(map[place]bool)
	for _, one := range chosen {
		needed[one.Place] = true
	}
	var err error
	var redisURL string
	if needed[onRedis] || needed[onLeases] || needed[historyOn] { // first, as it may be missing on the machine
		if s.redis, err = startRedis(filepath.Join(dir, "redis")); err != nil {
			return s, err
		}
		redisURL = "redis://" + s.redis.Addr
	}
	var memcachedSettings []string
	if needed[onMemcached] || needed[onRatelimitKeys] || needed[onHotKey] {
		if s.memcached, err = startMemcached(); err != nil {
			return s, err
		}
		memcachedSettings = []string{"BACKEND_TYPE=memcache", "MEMCACHE_HOST_PORT=" + s.memcached.addr}
	}
	if s.at[onFloor], err = startFloor(ctx); err != nil {
		return s, err
	}
	if o.Binary == "" && len(needed) > 1 {
		o.Binary = filepath.Join(dir, "weir-binary")
		cmd := exec.CommandContext(ctx, "go", "build", "-o", o.Binary, "github.com/weirproxy/weir/cmd/weir")
		if out, err := cmd.CombinedOutput(); err != nil {
			return s, fmt.Errorf("build weir: %w\n%s", err, out)
		}
	}
	for at, of := range map[place]struct {
		store    store
		settings []string
	}{
		inMemory:        {},
		onRedis:         {s.redis, []string{"BACKEND_TYPE=redis", "REDIS_URL=" + redisURL, "LEASES=false"}},
		onLeases:        {s.redis, []string{"BACKEND_TYPE=redis", "REDIS_URL=" + redisURL, "LEASES=true"}},
		onMemcached:     {s.memcached, memcachedSettings},
		onRatelimitKeys: {s.memcached, append(memcachedSettings, "KEY_FORMAT=ratelimit")},
		onHotKey:        {s.memcached, memcachedSettings},
		historyOff:      {},
		historyOn:       {nil, []string{"HISTORY=true", "HISTORY_FLUSH_INTERVAL=1s", "REDIS_HISTORY_URL=" + redisURL}},
	} {
		if !needed[at] {
			continue
		}
		if s.at[at], err = startWeir(ctx, o, dir, string(at), of.settings...); err != nil {
			return s, err
		}
		s.at[at].store = of.store
	}
	if hot := s.at[onHotKey]; hot != nil {
		for i := range 2 {
			one, err := startWeir(ctx, o, dir, fmt.Sprint(onHotKey, i), memcachedSettings...)
			if err != nil {
				return s, err
			}
			hot.others, hot.conns = append(hot.others, one), append(hot.conns, one.conns...)
		}
	}
	return s, nil
}

// close stops all, weir before the Redis that it counts in.
func (s *servers) close() {
	for one := range maps.Values(s.at) {
		if one != nil {
			one.close()
		}
	}
	if s.redis != nil {
		s.redis.Close()
	}
	if s.memcached != nil {
		s.memcached.close()
	}
}
