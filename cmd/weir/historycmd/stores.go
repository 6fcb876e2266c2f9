package historycmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/backend/history/transfer"
	"github.com/weirproxy/weir/cmd/weir/config"
)

// bulkStore is a store that many old hits are to be counted in.
type bulkStore interface {
	history.Store
	Close() error
}

// openBulk opens the history that the environment names, Redis or the file in DATA_DIR, and returns how long it keeps
// what. Series may hold any number of points while it is open, as old minutes are many until they have been rolled.
func openBulk(ctx context.Context, set *config.Settings, log *slog.Logger) (bulkStore, history.Keep, error) {
	keep := set.History.Keep()
	roomy := keep
	roomy.MaxPoints = math.MaxInt32
	if set.HistoryInRedis() {
		c, err := set.RedisHistory(log)
		if err != nil {
			return nil, keep, err
		}
		c.Keep = roomy
		store, err := openRedisAs(ctx, c)
		if err != nil {
			return nil, keep, err
		}
		return store, keep, nil
	}
	if set.DataDir == "" {
		return nil, keep, errors.New("no Redis and no DATA_DIR are named: set REDIS_HISTORY_URL or DATA_DIR as weir serve has it")
	}
	store, err := filehistory.Open(filehistory.Config{Dir: set.DataDir, Keep: roomy})
	switch {
	case errors.Is(err, filehistory.ErrInUse):
		return nil, keep, fmt.Errorf("%s is in use by another weir: stop it for this, as a file has one owner at a time "+
			"(a history in Redis, which REDIS_HISTORY_URL names, is written to beside any weir serve)",
			filepath.Join(set.DataDir, filehistory.Name))
	case err != nil:
		return nil, keep, err
	}
	return store, keep, nil
}

// bulkTarget is how hits are counted in such a store. In a Redis, requests may be waiting for their decisions.
func bulkTarget(set *config.Settings, store bulkStore) transfer.Target {
	concurrency := 32
	if set.HistoryInRedis() {
		concurrency = 2
	}
	return transfer.Target{Store: store, Concurrency: concurrency, Now: time.Now, Retention: set.History.Retention}
}

// where names the store, for people.
func where(set *config.Settings) string {
	if set.HistoryInRedis() {
		return "the Redis of " + cmp.Or(set.HistoryVariable(), "REDIS_URL")
	}
	return "DATA_DIR=" + set.DataDir
}
