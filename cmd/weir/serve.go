package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/weirproxy/weir/backend/memory"
	"github.com/weirproxy/weir/cmd/weir/settings"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/file"
	"github.com/weirproxy/weir/server"
	"github.com/weirproxy/weir/server/admin"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/rls"
	"github.com/weirproxy/weir/server/stats"
)

type serveCommand struct {
	Config string `placeholder:"DIR" help:"Directory of descriptor files; replaces RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY."`
}

func (*serveCommand) Help() string {
	return `Everything else is set by environment variables: GRPC_PORT (8081), PORT (8080), DEBUG_PORT (6070), MEMORY_MAX_KEYS,
DATA_DIR, DRAIN_DELAY and more; cmd/weir/ENVIRONMENT.md lists them. SIGTERM drains and exits 0; a second one ends at
once.`
}

// Run serves until a signal comes, then drains.
func (c *serveCommand) Run(ctx context.Context, out terminal.Output, as settings.Program) error {
	set, err := settings.Read(as)
	if err != nil {
		return err
	}
	c.Config = cmp.Or(c.Config, set.ConfigDir())
	log := set.Logger(out.Err)
	if err := settings.Unsupported(os.Getenv, log); err != nil {
		return err
	}
	as.Warn(&set, log)
	keepHeadroom(set.GOGC)
	metrics := stats.New(buildVersion())
	store, err := openStore(&set, metrics, log)
	if err != nil {
		return err
	}
	measure, err := newMeasuring(&set, metrics, log)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	limiter := limit.New(store, set.Limits(), measure.recorder)
	metrics.Limiter(limiter)
	health := server.NewHealth()
	srv, err := server.Listen(set.Server(), server.Parts{
		Service: rls.New(limiter, set.Answers(), metrics), Health: health, Metrics: metrics.Handler(), Panicked: metrics.Panicked, Log: log,
		Counters: &admin.Counters{Rules: limiter, Counter: store, Inspector: store, Guard: set.Guard(), Log: log},
		History:  measure.api(),
	})
	if err != nil {
		return errors.Join(err, measure.close(ctx), store.Close())
	}
	log.Info("weir starts", "version", buildVersion(), "backend", set.BackendType,
		"algorithm", set.Algorithm.String(), "config", c.Config)

	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	running.Go(func() { c.watch(ctx, &set, limiter, health, metrics, log) })
	running.Go(func() {
		if err := store.await(ctx); err != nil {
			log.Error("weir gives up", "error", err)
			cancel(terminal.No)
		}
	})
	if set.BothRedis.HealthCheckActiveConnection {
		running.Go(func() { store.follow(ctx, health) })
	}
	running.Go(func() { measure.run(ctx) })
	kill := secondSignal(ctx)
	err = srv.Run(ctx, kill)
	if err == nil && context.Cause(ctx) == terminal.No {
		err = terminal.No // it was logged why
	}
	cancel(nil)
	running.Wait()
	err = errors.Join(err, measure.close(kill), store.Close())
	if err != nil {
		log.Error("weir ends", "error", err)
		return err
	}
	log.Info("weir ends")
	return nil
}

// watch applies the directory's configurations until ctx ends.
func (c *serveCommand) watch(ctx context.Context, set *settings.Settings, l *limit.Limiter, h *server.Health, m *stats.Metrics, log *slog.Logger) {
	source := file.New(c.Config, set.Rules(), log)
	source.OnError = func(error) { m.ConfigLoaded(false) }
	err := source.Run(ctx, func(config *descriptors.Config) error {
		l.Apply(config)
		h.Configured()
		m.ConfigLoaded(true)
		return nil
	})
	if err != nil && ctx.Err() == nil {
		log.Error("the configuration is no longer watched: changes have no effect until weir is restarted", "error", err)
	}
}

// openStore opens the store that BACKEND_TYPE names.
func openStore(set *settings.Settings, metrics *stats.Metrics, log *slog.Logger) (*counters, error) {
	if set.BackendType == "redis" {
		store, err := openRedis(set, metrics, log)
		if err != nil {
			return nil, err
		}
		return store.guarded(set, metrics, log), nil
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
	return &counters{Counter: store, Inspector: store}, nil
}

// secondSignal ends when a signal comes after the one that ended ctx: the user wants out now.
func secondSignal(ctx context.Context) context.Context {
	second, end := context.WithCancelCause(context.Background())
	go func() {
		<-ctx.Done()
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		<-signals
		end(errors.New("a second signal came"))
	}()
	return second
}
