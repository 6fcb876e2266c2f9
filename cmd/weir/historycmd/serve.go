package historycmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/cmd/weir/wait"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/file"
	"github.com/weirproxy/weir/server"
	"github.com/weirproxy/weir/server/admin"
	historyapi "github.com/weirproxy/weir/server/history"
	"github.com/weirproxy/weir/server/promql"
	"github.com/weirproxy/weir/server/promql/engine"
	"github.com/weirproxy/weir/server/stats"
)

// Version is the version of this binary.
type Version string

type serveCommand struct {
	Config string `placeholder:"DIR" help:"Directory of the descriptor files that the fleet has, so that its rules and limits are known here."`
}

func (*serveCommand) Help() string {
	return `For a fleet of weirs that keep their history in one Redis: one more process, which reads it and limits nothing, so that
queries take nothing from those that answer Envoy. cmd/weir/OPERATION.md has its variables, and its rights.

    REDIS_HISTORY_URL=redis:6379 weir history serve --config /etc/weir

SIGTERM ends it with exit code 0.`
}

const drainTimeout = 10 * time.Second // of open queries

func (c *serveCommand) Run(ctx context.Context, out terminal.Output, version Version) error {
	hangups := wait.NewHangups()
	settings, err := config.Read(config.Process())
	if err != nil {
		return err
	}
	if !settings.HistoryInRedis() {
		return errors.New("the environment names no Redis (REDIS_HISTORY_URL, or else REDIS_URL), and a history outside Redis " +
			"belongs to its weir serve, which answers these queries on its own admin port")
	}
	log := settings.Logger(out.Err)
	metrics := stats.NewProcess(string(version))
	parts := admin.Parts{Metrics: metrics.Handler(), Profiles: settings.Profiles, Access: settings.Access(log)}
	metrics.RegisterRefusedTokens(parts.Access.Refused)
	rules, err := openRules(c.Config, &settings, log)
	if err != nil {
		return err
	}
	if rules.dir != nil {
		parts.Rules, parts.Loaded = rules, rules.Loaded
	}
	store, err := OpenRedis(&settings, log, true)
	if err != nil {
		return err
	}
	parts.Ready, parts.History = store.Ready, historyapi.New(store, settings.History.FlushInterval, time.Now)
	parts.Query = promql.NewHandler(promql.Config{
		Config: engine.Config{Store: store, Rules: rules.Rules, Now: time.Now, Log: log,
			MaxSamples: settings.History.QueryMaxSamples, Timeout: settings.History.QueryTimeout},
		Version: string(version), Concurrency: cmp.Or(settings.History.QueryConcurrency, 2), // nothing else uses this process
	})
	port, err := server.OpenPort("admin", settings.Server().AdminAddress, log, admin.Handler(parts))
	if err != nil {
		return errors.Join(err, store.Close())
	}
	log.Info("serving the history", "version", string(version), "address", port.Address())
	if err = errors.Join(run(ctx, port, rules, hangups), store.Close()); err == nil {
		log.Info("weir ends")
	}
	return err
}

// run serves, and reloads changed rules, until ctx ends.
func run(ctx context.Context, port *server.Port, rules *fleetRules, hangups wait.Hangups) error {
	following, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { rules.followDir(following) })
	running.Go(func() { hangups.Follow(following, rules.reload) })
	err := port.Run(ctx, drainTimeout)
	end()
	running.Wait()
	return err
}

// fleetRules are the rules of a directory's descriptor files, none without a directory. Only queries use them.
type fleetRules struct {
	dir    *file.Dir // may be nil
	reload func()    // reads it again at once, at SIGHUP

	inForce  atomic.Pointer[descriptors.Config]
	loadedAt atomic.Int64 // Unix seconds
}

// openRules makes the rules of a directory, "" for none, without reading it. A missing directory is an error, as it is
// probably a typo; weir serve waits for it instead, because it must answer Envoy.
func openRules(path string, settings *config.Settings, log *slog.Logger) (*fleetRules, error) {
	r := &fleetRules{reload: func() { log.Info("SIGHUP ignored", "reason", "there is no --config to reload") }}
	if path == "" {
		return r, nil
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", path)
	}
	if err != nil {
		return nil, fmt.Errorf("--config: %w; name the directory of descriptor files that weir serve has", err)
	}
	r.dir = file.New(path, settings.Rules(), log)
	r.reload = func() {
		log.Info("reloading the configuration on SIGHUP", "dir", path)
		r.dir.Reload()
	}
	return r, nil
}

// followDir reads the directory at once and after each change, until ctx ends.
func (r *fleetRules) followDir(ctx context.Context) {
	if r.dir == nil {
		return
	}
	_ = r.dir.Run(ctx, func(config *descriptors.Config) error { // fails only when ctx ends
		r.inForce.Store(config)
		r.loadedAt.Store(time.Now().Unix())
		return nil
	})
}

// Config returns the configuration in force, nil before the first.
func (r *fleetRules) Config() *descriptors.Config { return r.inForce.Load() }

// Loaded returns when the configuration in force was loaded, the Unix epoch before the first.
func (r *fleetRules) Loaded() time.Time { return time.Unix(r.loadedAt.Load(), 0) }

// Rules returns the rules of all domains.
func (r *fleetRules) Rules() []*descriptors.Rule { return r.Config().Rules() }
