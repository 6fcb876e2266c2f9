package historycmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend/history/query"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/hangup"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/cmd/weir/wait"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server"
	"github.com/weirproxy/weir/server/admin"
	"github.com/weirproxy/weir/server/promql"
	"github.com/weirproxy/weir/server/promql/engine"
	"github.com/weirproxy/weir/server/stats"
)

// Version is that of this weir.
type Version string

type serveCommand struct {
	Config string `placeholder:"DIR" help:"Directory of the descriptor files that the fleet has, so that its rules and limits are known here."`
}

// Help returns what weir history serve --help shows below the first sentence.
func (*serveCommand) Help() string {
	return `For a fleet of weirs that keep their history in one Redis: one more process, which reads it and limits nothing, so that
the queries of Grafana take nothing from those that answer Envoy. It needs no configuration but the Redis, which the
environment names as it does for weir serve; the variables of DEBUG_HOST and DEBUG_PORT (6070), of Redis, of logs, and
those that begin with HISTORY_QUERY_ hold. It answers /livez, /readyz, /metrics, /api/v1/history, /prometheus/api/v1/
and the page. With --config it has the rules as well, for weir_limit_requests, /api/v1/rules and the page: the files are
read as weir serve reads them, with ALGORITHM and MERGE_DOMAIN_CONFIG, and again when they change and at SIGHUP. It
changes nothing: a user of Redis with the reading commands suffices, which cmd/weir/OPERATION.md names. SIGTERM ends it
with exit code 0.`
}

const (
	readyTime     = 5 * time.Second // for the store to answer whether it does
	watchInterval = 10 * time.Second
	lastReads     = 10 * time.Second // for queries that are being answered when the end comes

	queriesAtATime = 2 // as nothing else is done here
)

// Run serves until a signal comes.
func (c *serveCommand) Run(ctx context.Context, out terminal.Output, version Version) error {
	hangups := hangup.Await()
	set, err := config.Read(config.Process())
	log := set.Logger(out.Err)
	if err == nil {
		err = c.serve(ctx, &set, version, hangups, log)
	}
	if err != nil {
		return fmt.Errorf("history serve: %w", err)
	}
	return nil
}

func (c *serveCommand) serve(ctx context.Context, set *config.Settings, version Version, hangups hangup.Signals, log *slog.Logger) error {
	if !set.HistoryInRedis() {
		return errors.New("the environment names no Redis (REDIS_HISTORY_URL, or else REDIS_URL), and a history outside Redis " +
			"belongs to its weir serve, which answers these queries on its own admin port")
	}
	metrics := stats.NewProcess(string(version))
	parts := admin.Parts{Metrics: metrics.Handler(), Profiles: set.Profiles, Guard: set.Guard(log)}
	metrics.RefusedTokens(parts.Guard.Refused)
	var known *followedRules
	var rules func() []*descriptors.Rule
	if c.Config != "" {
		var err error
		if known, err = openRules(c.Config, set, log); err != nil {
			return err
		}
		parts.Rules, parts.Loaded, rules = known, known.Loaded, known.Rules
	}
	config, err := set.RedisHistory(log)
	if err != nil {
		return err
	}
	config.ReadOnly = true
	store, err := redishistory.Open(config)
	if err != nil {
		return fmt.Errorf("opening the history: %w", err)
	}
	ready := readiness{store}
	parts.Readiness, parts.History = ready, query.New(store, time.Now)
	bounds := set.History.Queries
	queries := promql.NewHandler(promql.Config{
		Config: engine.Config{Store: store, Rules: rules, Now: time.Now, MaxSamples: bounds.MaxSamples, Timeout: bounds.Timeout, Log: log},
		Ready:  ready.Ready, Version: string(version), Concurrency: cmp.Or(bounds.Concurrency, queriesAtATime),
	})
	queries.Show(metrics)
	parts.Query = queries
	port, err := server.OpenPort("debug", set.Server().DebugAddress, log, admin.Handler(parts))
	if err != nil {
		return errors.Join(fmt.Errorf("%w (DEBUG_HOST and DEBUG_PORT say where)", err), store.Close())
	}
	log.Info("weir serves the history, and limits nothing", "version", string(version), "address", port.Address())
	err = errors.Join(serveWith(ctx, port, known, ready, hangups, log), store.Close())
	if err == nil {
		log.Info("weir ends")
	}
	return err
}

// serveWith serves until ctx ends, and meanwhile follows the rules, nil for none, and whether the history can be read.
func serveWith(ctx context.Context, port *server.Port, known *followedRules, ready readiness, hangups hangup.Signals, log *slog.Logger) error {
	following, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	reload := func() { log.Info("SIGHUP changes nothing: without --config there is nothing to read again") }
	if known != nil {
		reload = known.reload
		running.Go(func() { known.follow(following) })
	}
	running.Go(func() { hangups.Follow(following, reload) })
	running.Go(func() { watch(following, ready, log) })
	err := port.Run(ctx, lastReads)
	end()
	running.Wait()
	return err
}

// watch tells whenever the history cannot be read, and when it can again.
func watch(ctx context.Context, r readiness, log *slog.Logger) {
	away := false
	for {
		err := r.Ready()
		switch {
		case err != nil && !away:
			log.Warn("the history cannot be read: see to the Redis of REDIS_HISTORY_URL, or else REDIS_URL; queries fail until then",
				"error", err)
		case err == nil && away:
			log.Info("the history can be read again")
		}
		away = err != nil
		if !wait.For(ctx, watchInterval) {
			return
		}
	}
}

// readiness is whether the history can be read.
type readiness struct{ store *redishistory.Store }

// Ready returns why it cannot be, nil if it can.
func (r readiness) Ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	return r.store.Answers(ctx)
}
