package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/ratelimit"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/cmd/weir/wait"
	"github.com/weirproxy/weir/server"
	"github.com/weirproxy/weir/server/admin"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/outage"
	"github.com/weirproxy/weir/server/rlqs"
	"github.com/weirproxy/weir/server/rls"
	"github.com/weirproxy/weir/server/stats"
)

type serveCommand struct {
	Config string `placeholder:"DIR" help:"Directory of descriptor files; replaces CONFIG_TYPE and RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY."`
}

func (*serveCommand) Help() string {
	return `Everything else is set by the environment variables below; started as ratelimit, weir has other defaults
(cmd/weir/ENVIRONMENT.md). SIGTERM drains and exits 0; a second one ends at once. SIGHUP reloads the configuration
at once.
` + environmentHelp()
}

// Run serves until a signal, then drains.
func (c *serveCommand) Run(ctx context.Context, out terminal.Output) error {
	hangups := wait.NewHangups()
	settings, err := config.Read(config.Process())
	return serveLogged(&settings, err, out, func(log *slog.Logger) error { return c.serve(ctx, &settings, hangups, log) })
}

// serveAsRatelimit serves as a replacement of envoyproxy/ratelimit. It ignores arguments.
func serveAsRatelimit(arguments []string, out terminal.Output) error {
	ctx, stop := signalContext(false)
	defer stop()
	settings, err := ratelimit.Read(config.Process())
	return serveLogged(&settings.Settings, err, out, func(log *slog.Logger) error {
		settings.Warn(arguments, log)
		return new(serveCommand).serve(ctx, &settings.Settings, nil, log)
	})
}

// serveLogged calls serve, unless err says that the settings are wrong. If logs are JSON, it logs the error as JSON.
func serveLogged(settings *config.Settings, err error, out terminal.Output, serve func(log *slog.Logger) error) error {
	log := settings.Logger(out.Err)
	if err == nil {
		err = serve(log)
	}
	if _, reported := terminal.ExitCode(err); reported || !settings.LogsJSON() {
		return err
	}
	log.Error("weir cannot start", "error", err)
	return terminal.ExitFailed
}

func (c *serveCommand) serve(ctx context.Context, settings *config.Settings, hangups wait.Hangups, log *slog.Logger) error {
	config.Process().WarnOfIneffective(log)
	tuneCollector(settings.GOGC)
	s := &service{settings: settings, log: log, metrics: stats.New(buildVersion())}
	kill := secondSignal(ctx, hangups != nil)
	err := s.open(c.Config)
	if err == nil {
		s.logStart(ctx)
		err = s.run(ctx, kill, hangups)
	}
	if err = errors.Join(err, s.close(kill)); err == nil {
		s.log.Info("weir ends")
	}
	return err
}

// logStart logs the backend, and a warning if nothing is refused.
func (s *service) logStart(ctx context.Context) {
	s.log.Log(ctx, s.settings.StartLevel, "weir starts", "version", buildVersion(), "backend", s.settings.BackendType,
		"algorithm", s.settings.Algorithm.String(), "config", s.source.name)
	if s.settings.ShadowMode {
		s.log.Warn("nothing is refused: every rule is in shadow mode", "variable", "SHADOW_MODE")
	}
}

// service has all parts of weir serve.
type service struct {
	settings *config.Settings
	log      *slog.Logger
	metrics  *stats.Metrics

	telemetry  *telemetry
	source     configSource
	store      *counterStore
	history    *historyPipeline
	statistics *statistics
	limiter    *limit.Limiter
	quotas     *rlqs.Service // nil if RLQS is off
	health     *server.Health
	server     *server.Server
}

// open opens the parts in the order of their dependencies, the ports last.
func (s *service) open(flag string) (err error) {
	ports := s.settings.Server()
	if ports.TLS, err = s.settings.GRPCTLS(s.log); err != nil {
		return err
	}
	if s.telemetry, err = openTelemetry(s.settings, s.metrics, s.log); err != nil {
		return err
	}
	s.log = s.telemetry.log
	if s.source, err = openSource(flag, s.settings, s.metrics, s.log); err != nil {
		return err
	}
	if s.store, err = openStore(s.settings, s.metrics, s.telemetry, s.log); err != nil {
		return err
	}
	if s.history, err = newHistoryPipeline(s.settings, s.metrics, s.telemetry, s.log); err != nil {
		return err
	}
	if s.statistics, err = openStatistics(s.settings, s.metrics, s.history.recorder, s.store, s.log); err != nil {
		return err
	}
	limits := s.settings.Limits()
	limits.Log = s.log
	s.limiter = limit.New(s.store.Store, limits, s.history.recorder)
	s.history.denials.setRecorder(s.limiter.Denials)
	s.metrics.RegisterLimiter(s.limiter)
	if s.settings.Quotas.Enabled {
		s.quotas = openQuotas(s.settings, s.limiter, s.store, s.metrics, s.log)
	}
	s.health = server.NewHealth(server.HealthRules{ByStore: s.settings.HealthByStore, NeedsDomains: s.settings.NeedsDomains})
	if s.server, err = server.Listen(ports, s.parts()); err != nil {
		return err
	}
	s.metrics.RegisterConnections(s.server.Listeners())
	return nil
}

// parts returns the handlers and services of the ports.
func (s *service) parts() server.Parts {
	answers, access := s.settings.Answers(), s.settings.Access(s.log)
	answers.Log = s.log
	s.metrics.RegisterRefusedTokens(access.Refused)
	return server.Parts{
		Service: rls.New(s.limiter, answers, s.observe), Quotas: s.quotas, Health: s.health, OnPanic: s.metrics.CountPanic, Log: s.log,
		OnHealthCheck: s.statistics.countHealthCheck, Trace: s.telemetry.requestTracer(),
		Admin: admin.Parts{
			Metrics: s.metrics.Handler(), Stats: s.statistics.textHandler(), Rules: s.limiter, Loaded: s.metrics.ConfigAppliedAt,
			Counters: &admin.Counters{
				Rules: s.limiter, Counter: s.store, Store: s.store, Recorder: s.history.recorder, Since: time.Now(), Now: time.Now, Log: s.log,
				LogValues: s.settings.DenialLogValues},
			Denials: &admin.Denials{Recorder: s.limiter.Denials, Rules: s.limiter, Since: time.Now(), Now: time.Now},
			Quotas:  s.quotas, History: s.history.api(), NoHistory: s.settings.HistoryRemedy(), Query: s.history.queries(s.settings, s.limiter, s.log), Access: access,
			Warning: s.store.warning,
		},
	}
}

// observe is called for each answered request.
func (s *service) observe(a rls.AnsweredRequest) {
	s.statistics.observe(a)
	s.telemetry.observe(a)
}

// run serves until ctx ends, and then drains; kill ends the drain early.
func (s *service) run(ctx, kill context.Context, hangups wait.Hangups) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	running.Go(func() { s.source.follow(ctx, s) })
	running.Go(func() { hangups.Follow(ctx, s.source.reload) })
	running.Go(func() {
		if err := s.store.awaitReady(ctx); err != nil {
			s.log.Error("weir ends: its store did not answer", "error", err)
			cancel(terminal.ExitNo)
			return
		}
		s.health.StoreAnswered()
	})
	if s.store.shared != nil {
		running.Go(func() {
			(&outage.Log{Servers: s.store.shared, Kind: s.store.kind, Limiter: s.limiter, Policy: s.settings.OnFailure, Log: s.log}).Run(ctx)
		})
		if s.settings.BothRedis.HealthCheckActiveConnection {
			running.Go(func() { s.store.reportHealth(ctx, s.health) })
		}
	}
	running.Go(func() { s.history.run(ctx) })
	running.Go(func() { s.settings.DenialLog(s.limiter.Denials, s.log).Run(ctx) })
	quotas, stopQuotas := context.WithCancel(context.Background())
	if s.quotas != nil {
		running.Go(func() { s.quotas.Run(quotas) }) // until the end of the drain
	}
	s.statistics.run() // until the end of the drain
	err := s.server.Run(ctx, kill)
	if err == nil && context.Cause(ctx) == terminal.ExitNo {
		err = terminal.ExitNo // the reason is logged
	}
	cancel(nil)
	stopQuotas()
	running.Wait()
	s.statistics.close()
	return err
}

// close stores the last hits, and closes the parts.
func (s *service) close(kill context.Context) (err error) {
	if s.history != nil {
		err = s.history.close(kill)
	}
	if s.store != nil {
		err = errors.Join(err, s.store.Close())
	}
	if s.telemetry != nil {
		s.telemetry.close(kill)
	}
	return err
}
