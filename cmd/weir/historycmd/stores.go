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

// OpenRedis opens a history in Redis, for reading only or for writing too.
func OpenRedis(settings *config.Settings, log *slog.Logger, readOnly bool) (*redishistory.Store, error) {
	c, err := settings.RedisHistory(log)
	if err != nil {
		return nil, err
	}
	c.ReadOnly = readOnly
	return redishistory.Open(c)
}

// OpenFileOrMemory opens the history in the file in DATA_DIR; or in memory, without a DATA_DIR or if it is not
// writable. A file in use or damaged is an error: its process may end, or somebody may move it.
func OpenFileOrMemory(settings *config.Settings, log *slog.Logger) (history.Store, error) {
	c := filehistory.Config{Dir: settings.DataDir, Retention: settings.History.RetentionByTier()}
	if c.Dir == "" {
		return filehistory.InMemory(c)
	}
	store, err := filehistory.Open(c)
	if err == nil || errors.Is(err, filehistory.ErrInUse) || errors.Is(err, filehistory.ErrDamaged) || errors.Is(err, filehistory.ErrFormat) {
		return store, err
	}
	log.Warn("DATA_DIR cannot hold the history: it is kept in memory, and is lost when this process ends", "error", err)
	return filehistory.InMemory(c)
}

// load opens the history of the environment, in Redis or in DATA_DIR, calls count to add old hits, and closes it.
// Series may have any number of points meanwhile: old minutes are many until they are downsampled.
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

// storeName names the store, for people.
func storeName(settings *config.Settings) string {
	if settings.HistoryInRedis() {
		return "the Redis of " + cmp.Or(settings.HistoryVariable(), "REDIS_URL")
	}
	return "DATA_DIR=" + settings.DataDir
}
