package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend/memory"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/hangup"
	"github.com/weirproxy/weir/cmd/weir/ratelimit"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/server"
	"github.com/weirproxy/weir/server/admin"
	"github.com/weirproxy/weir/server/denials"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/rls"
	"github.com/weirproxy/weir/server/stats"
)

type serveCommand struct {
	Config string `placeholder:"DIR" help:"Directory of descriptor files; replaces CONFIG_TYPE and RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY."`
}

func (*serveCommand) Help() string {
	return `Everything else is set by environment variables: GRPC_PORT (8081), PORT (8080), DEBUG_PORT (6070), MEMORY_MAX_KEYS,
DATA_DIR, DRAIN_DELAY and more; cmd/weir/ENVIRONMENT.md lists them. SIGTERM drains and exits 0; a second one ends at
once. SIGHUP has the configuration read again at once.`
}

// Run serves until a signal comes, then drains.
func (c *serveCommand) Run(ctx context.Context, out terminal.Output) error {
	hangups := hangup.Await()
	set, err := config.Read(config.Process())
	return serveLogged(&set, err, out, func(log *slog.Logger) error { return c.serve(ctx, &set, hangups, log) })
}

// serveAsRatelimit serves in the place of envoyproxy/ratelimit, whatever its arguments are.
func serveAsRatelimit(arguments []string, out terminal.Output) error {
	ctx, stop := untilSignal(false)
	defer stop()
	set, err := ratelimit.Read(config.Process())
	return serveLogged(&set.Settings, err, out, func(log *slog.Logger) error {
		set.Warn(arguments, log)
		return new(serveCommand).serve(ctx, &set.Settings, nil, log)
	})
}

// serveLogged serves with settings, unless there is an error with them. Where logs are JSON, so is the line about what ends
// it.
func serveLogged(set *config.Settings, err error, out terminal.Output, serve func(log *slog.Logger) error) error {
	log := set.Logger(out.Err)
	if err == nil {
		err = serve(log)
	}
	if _, told := terminal.ExitCode(err); told || !set.LogsJSON() {
		return err
	}
	log.Error("weir does not serve", "error", err)
	return terminal.Failed
}

func (c *serveCommand) serve(ctx context.Context, set *config.Settings, hangups hangup.Signals, log *slog.Logger) error {
	secure, err := set.GRPCTLS(log)
	if err != nil {
		return err
	}
	ports := set.Server()
	ports.TLS = secure
	config.Process().WarnOfIneffective(log)
	keepHeadroom(set.GOGC)
	metrics := stats.New(buildVersion())
	source, err := openSource(c.Config, set, metrics, log)
	if err != nil {
		return err
	}
	store, err := openStore(set, metrics, log)
	if err != nil {
		return err
	}
	pipeline, err := newHistoryPipeline(set, metrics, log)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	st, err := openStatistics(set, metrics, pipeline.recorder, store, log)
	if err != nil {
		return errors.Join(err, pipeline.close(ctx), store.Close())
	}
	began, refused := time.Now(), denials.New()
	limits, answers := set.Limits(), set.Answers()
	limits.Log, limits.Denials, answers.Log = log, refused, log
	limiter := limit.New(store.Counter, limits, pipeline.recorder)
	metrics.Limiter(limiter)
	health := server.NewHealth(set.Health())
	srv, err := server.Listen(ports, server.Parts{
		Service: rls.New(limiter, answers, st.observer()), Health: health, Metrics: metrics.Handler(), Panicked: metrics.Panicked, Log: log,
		Counters: &admin.Counters{Rules: limiter, Counter: store, Store: store, Log: log, LogValues: set.DenialLogValues},
		Top:      &admin.Top{Rules: limiter, Store: store},
		Denials:  &admin.Denials{Recorder: refused, Rules: limiter, Since: began, Now: time.Now},
		Query:    pipeline.queries(set, limiter, metrics, log),
		History:  pipeline.api(), Guard: adminGuard(set, metrics, log), Rules: limiter, Loaded: metrics.ConfigLoaded, Stats: st.text(),
	})
	if err != nil {
		return errors.Join(err, pipeline.close(ctx), store.Close())
	}
	metrics.Doors(srv.Doors())
	log.Log(ctx, set.StartLevel, "weir starts", "version", buildVersion(), "backend", set.BackendType,
		"algorithm", set.Algorithm.String(), "config", source.name)

	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	running.Go(func() { source.follow(ctx, limiter, health, metrics, log) })
	running.Go(func() { hangups.Follow(ctx, source.reload) })
	running.Go(func() {
		if err := store.await(ctx); err != nil {
			log.Error("weir gives up", "error", err)
			cancel(terminal.No)
			return
		}
		health.Answered()
	})
	running.Go(func() { store.follow(ctx, health, set.BothRedis.HealthCheckActiveConnection) })
	running.Go(func() { store.followOutages(ctx, outages{limiter: limiter, policy: set.OnFailure, log: log}) })
	running.Go(func() { pipeline.run(ctx) })
	running.Go(func() { set.DenialLog(refused, log).Run(ctx) })
	st.run() // to the end of the drain
	kill := secondSignal(ctx, hangups != nil)
	err = srv.Run(ctx, kill)
	if err == nil && context.Cause(ctx) == terminal.No {
		err = terminal.No // it was logged why
	}
	cancel(nil)
	running.Wait()
	st.close()
	err = errors.Join(err, pipeline.close(kill), store.Close())
	if err == nil {
		log.Info("weir ends")
	}
	return err
}

// openStore opens the store that BACKEND_TYPE names.
func openStore(set *config.Settings, metrics *stats.Metrics, log *slog.Logger) (*counters, error) {
	if set.BackendType == "redis" {
		return openRedis(set, metrics, log)
	}
	store, err := memory.Open(memory.Config{MaxKeys: set.MemoryMaxKeys, Dir: set.DataDir, SaveEvery: set.DataSaveInterval, Log: log})
	if err != nil {
		return nil, fmt.Errorf("opening the counters: %w", err)
	}
	metrics.Gauge("weir_memory_keys", "Keys that are counted in memory.", nil,
		func() float64 { return float64(store.Stats().Keys) })
	const evicted = "Keys thrown out of memory to make room, by whether they had room left (their count is lost) or were over their limit (only if all keys are)."
	metrics.Counter("weir_memory_evicted_keys_total", evicted, map[string]string{"state": "open"},
		func() float64 { return float64(store.Stats().EvictedOpen) })
	metrics.Counter("weir_memory_evicted_keys_total", evicted, map[string]string{"state": "over"},
		func() float64 { return float64(store.Stats().EvictedOver) })
	return &counters{Counter: store, Inspector: store, Lister: store}, nil
}

// adminGuard decides who may ask the admin port what, and shows in /metrics which tokens it has refused.
func adminGuard(set *config.Settings, metrics *stats.Metrics, log *slog.Logger) *admin.Guard {
	g := set.Guard(log)
	metrics.RefusedTokens(g.Refused)
	return g
}
