package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/file"
	"github.com/weirproxy/weir/descriptors/xds"
	"github.com/weirproxy/weir/server/stats"
)

// configSource is the source of the configuration.
type configSource struct {
	descriptors.Source
	name   string // the directory or the server
	reload func() // called at SIGHUP: reads a directory again
}

// openSource returns the source that flag, the directory of --config, or else CONFIG_TYPE names. For xDS it reads the
// certificates.
func openSource(flag string, settings *config.Settings, m *stats.Metrics, log *slog.Logger) (configSource, error) {
	failed := func(error) { m.ConfigRejected() }
	switch {
	case settings.FromXDS() && flag == "":
		server, err := settings.XDS(log)
		server.OnError = failed
		return configSource{xds.New(server), server.Server, func() {
			log.Info("SIGHUP ignored", "reason", "the configuration server pushes changes", "server", server.Server)
		}}, err
	case settings.FromXDS():
		log.Warn("configuration server ignored: --config takes precedence over CONFIG_TYPE", "server", settings.XDSServer, "config", flag)
	}
	dir, prefix := flag, ""
	if flag == "" {
		dir, prefix = settings.ConfigFiles()
	}
	d := file.New(dir, settings.Rules(), log)
	d.OnError, d.Prefix, d.MayBeEmpty = failed, prefix, settings.EmptyConfig
	return configSource{d, dir, func() {
		log.Info("reloading the configuration on SIGHUP", "dir", dir)
		d.Reload()
	}}, nil
}

// follow puts each new configuration in force, until ctx ends.
func (s configSource) follow(ctx context.Context, to *service) {
	err := s.Run(ctx, func(config *descriptors.Config) error {
		defer to.telemetry.traces.StartSpan("reload", "rules", len(config.Rules()))(nil)
		before := to.limiter.Config()
		to.limiter.Apply(config)
		logChanges(to.log, before, config)
		to.health.Configured(config.DomainCount())
		to.metrics.ConfigApplied(time.Now())
		return nil
	})
	if err != nil && ctx.Err() == nil {
		to.log.Error("following the configuration failed", "error", err, "remedy", "restart weir")
	}
}

// maxChanges is how many changes of one reload are logged.
const maxChanges = 10

// logChanges logs the differences between two configurations. If before is nil, it logs nothing.
func logChanges(log *slog.Logger, before, now *descriptors.Config) {
	if before == nil {
		return
	}
	changes := now.Changes(before)
	for i, change := range changes[:min(len(changes), maxChanges+1)] {
		if i == maxChanges {
			change = fmt.Sprintf("and %d more", len(changes)-i)
		}
		log.Info("configuration changed", "change", change)
	}
}
