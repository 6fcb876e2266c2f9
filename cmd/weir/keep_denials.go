package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/server/denials"
)

// lateDenial is how long after the end of its minute a denial may be recorded, because its request waited for an answer.
const lateDenial = 5 * time.Second

// denialKeeper stores recent denials beside the history in Redis, and restores those of all weirs at its start.
type denialKeeper struct {
	store    *redishistory.Store
	recorder *denials.Recorder
	log      *slog.Logger

	restored, failed bool
}

// setRecorder sets the recorder whose denials are stored. The keeper may be nil.
func (k *denialKeeper) setRecorder(r *denials.Recorder) {
	host, _ := os.Hostname()
	r.Weir = fmt.Sprintf("%s:%d", host, os.Getpid()) // in a container the pid is always the same
	if k != nil {
		k.recorder = r
	}
}

// flush stores the denials of minutes that ended before a moment. The next call retries after a failure. The keeper may be nil.
func (k *denialKeeper) flush(ctx context.Context, before time.Time) {
	if k == nil || k.recorder == nil {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, lastFlush)
	defer cancel()
	now := time.Now()
	err := k.restore(bounded, now)
	if err == nil {
		err = k.recorder.Store(before, func(all []denials.Summary) error {
			lines := make([]redishistory.Denial, len(all))
			for i := range all {
				text, _ := json.Marshal(&all[i]) // strings, numbers and times always encode
				lines[i] = redishistory.Denial{At: all[i].Last.At, Text: string(text)}
			}
			return k.store.StoreDenials(bounded, lines, now)
		})
	}
	if ctx.Err() != nil {
		return // the process ends
	}
	if err != nil && !k.failed {
		k.log.Warn("storing recent denials failed; the next minute tries again", "error", err)
	}
	k.failed = err != nil
}

// restore restores the denials that all weirs have stored, once.
func (k *denialKeeper) restore(ctx context.Context, now time.Time) error {
	if k.restored {
		return nil
	}
	texts, err := k.store.Denials(ctx, now)
	if err != nil {
		return err
	}
	all := make([]denials.Summary, 0, len(texts))
	for _, text := range texts {
		var s denials.Summary
		line, _ := text.(string)
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			k.log.Warn("a stored denial cannot be read", "error", err)
			continue
		}
		all = append(all, s)
	}
	k.recorder.Restore(all)
	k.restored = true
	return nil
}
