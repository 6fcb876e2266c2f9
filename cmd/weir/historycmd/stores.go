package historycmd

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/backend/history/transfer"
	"github.com/weirproxy/weir/cmd/weir/config"
)

// OpenRedis opens the history in Redis.
func OpenRedis(settings *config.Settings, log *slog.Logger, readOnly bool) (*redishistory.Store, error) {
	c, err := settings.RedisHistory(log)
	if err != nil {
		return nil, err
	}
	c.ReadOnly = readOnly
	return redishistory.Open(c)
}

// OpenFileOrMemory opens the history in a file in DATA_DIR or, if DATA_DIR is not set or not writable, in memory. It
// returns an error if the file is in use or damaged, as its process may end, or somebody may move the file away.
func OpenFileOrMemory(settings *config.Settings, log *slog.Logger) (history.Store, error) {
	c := filehistory.Config{Dir: settings.DataDir, Retention: settings.History.RetentionByTier()}
	if c.Dir == "" {
		return filehistory.InMemory(c)
	}
	store, err := filehistory.Open(c)
	if err == nil || errors.Is(err, filehistory.ErrInUse) || errors.Is(err, filehistory.ErrDamaged) || errors.Is(err, filehistory.ErrFormat) {
		return store, err
	}
	log.Warn("DATA_DIR cannot hold the history", "error", err, "effect", "it is in memory, and lost when this process ends")
	return filehistory.InMemory(c)
}

// load opens the history of the environment, in Redis or in DATA_DIR, calls count to add old hits, and closes it.
// Meanwhile series may have any number of points, as there are many old minutes before they are downsampled.
func load(settings *config.Settings, count func(transfer.Target) (transfer.LoadResult, error)) (transfer.LoadResult, error) {
	loading := *settings
	loading.History.MaxPoints = math.MaxInt32
	var store history.Store
	var err error
	concurrency := 32
	switch {
	case settings.HistoryInRedis():
		store, err = OpenRedis(&loading, slog.New(slog.DiscardHandler), false)
		concurrency = 2 // requests may wait for this Redis
	case settings.DataDir == "":
		err = errors.New("no Redis and no DATA_DIR are named: set REDIS_HISTORY_URL or DATA_DIR as weir serve has it")
	default:
		store, err = filehistory.Open(filehistory.Config{Dir: settings.DataDir, Retention: loading.History.RetentionByTier()})
		if errors.Is(err, filehistory.ErrInUse) {
			err = fmt.Errorf("history file %s is in use by another weir: stop it first", filepath.Join(settings.DataDir, filehistory.Name))
		}
	}
	if err != nil {
		return transfer.LoadResult{}, err
	}
	loaded, err := count(transfer.Target{Store: store, Concurrency: concurrency, Now: time.Now, Retention: settings.History.Retention})
	return loaded, errors.Join(err, store.Close())
}

// storeName returns the name of the store, for people.
func storeName(settings *config.Settings) string {
	if settings.HistoryInRedis() {
		return "the Redis of " + cmp.Or(settings.HistoryVariable(), "REDIS_URL")
	}
	return "DATA_DIR=" + settings.DataDir
}
