package historycmd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/file"
)

// followedRules are those of the descriptor files in a directory, as weir serve would have them in force: nothing is
// limited by them here. All methods but follow may be called by any number of goroutines.
type followedRules struct {
	dir     *file.Dir
	path    string
	log     *slog.Logger
	inForce atomic.Pointer[descriptors.Config]
	loaded  atomic.Int64 // when it was put in force, in Unix nanoseconds
}

// openRules names the directory, and reads nothing yet. weir serve waits for one that is missing, as it is in the way of
// what answers Envoy; here that is most likely a slip of whoever starts it.
func openRules(path string, set *config.Settings, log *slog.Logger) (*followedRules, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--config: %w; name the directory of descriptor files that weir serve has", err)
	case !info.IsDir():
		return nil, fmt.Errorf("--config: %s is no directory; name the one of the descriptor files that weir serve has", path)
	}
	return &followedRules{dir: file.New(path, set.Rules(), log), path: path, log: log}, nil
}

// follow reads the directory, and again at each change, until ctx ends.
func (r *followedRules) follow(ctx context.Context) {
	_ = r.dir.Run(ctx, func(config *descriptors.Config) error { // which ends with ctx alone
		r.loaded.Store(time.Now().UnixNano())
		r.inForce.Store(config)
		return nil
	})
}

// reload has it read again at once, as SIGHUP asks.
func (r *followedRules) reload() {
	r.log.Info("the configuration is read again, as SIGHUP asks", "dir", r.path)
	r.dir.Reload()
}

// Config returns the configuration in force, nil before the first.
func (r *followedRules) Config() *descriptors.Config { return r.inForce.Load() }

// Rules returns those of all domains.
func (r *followedRules) Rules() []*descriptors.Rule {
	if config := r.Config(); config != nil {
		return config.Rules()
	}
	return nil
}

// Loaded returns when the configuration in force was put in force, zero before the first.
func (r *followedRules) Loaded() time.Time {
	if r.Config() == nil {
		return time.Time{}
	}
	return time.Unix(0, r.loaded.Load())
}
