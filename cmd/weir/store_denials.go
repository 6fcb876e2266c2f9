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

// lateDenial is how long after the end of its minute a denial may be recorded: its request may have waited for an answer.
const lateDenial = 5 * time.Second

// denialStore stores recent denials beside the history in Redis, and restores those of all weirs at its start.
type denialStore struct {
	store    *redishistory.Store
	recorder *denials.Recorder
	log      *slog.Logger

	restored, failed bool
}

// setRecorder sets the recorder whose denials are stored. s may be nil.
func (s *denialStore) setRecorder(r *denials.Recorder) {
	host, _ := os.Hostname()
	r.Weir = fmt.Sprintf("%s:%d", host, os.Getpid()) // in a container the pid is always the same
	if s != nil {
		s.recorder = r
	}
}

// flush stores the denials of minutes that ended before a moment. After a failure the next call retries. s may be nil.
func (s *denialStore) flush(ctx context.Context, before time.Time) {
	if s == nil || s.recorder == nil {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, lastFlush)
	defer cancel()
	now := time.Now()
	err := s.restore(bounded, now)
	if err == nil {
		err = s.recorder.Store(before, func(all []denials.Summary) error {
			lines := make([]redishistory.Denial, len(all))
			for i := range all {
				text, _ := json.Marshal(&all[i]) // strings, numbers and times always encode
				lines[i] = redishistory.Denial{At: all[i].Last.At, Text: string(text)}
			}
			return s.store.StoreDenials(bounded, lines, now)
		})
	}
	if ctx.Err() != nil {
		return // the process ends
	}
	if err != nil && !s.failed {
		s.log.Warn("storing recent denials failed; the next minute tries again", "error", err)
	}
	s.failed = err != nil
}

// restore restores the denials that all weirs have stored. It does so once.
func (s *denialStore) restore(ctx context.Context, now time.Time) error {
	if s.restored {
		return nil
	}
	texts, err := s.store.Denials(ctx, now)
	if err != nil {
		return err
	}
	all := make([]denials.Summary, 0, len(texts))
	for _, text := range texts {
		var summary denials.Summary
		line, _ := text.(string)
		if err := json.Unmarshal([]byte(line), &summary); err != nil {
			s.log.Warn("a stored denial cannot be read", "error", err)
			continue
		}
		all = append(all, summary)
	}
	s.recorder.Restore(all)
	s.restored = true
	return nil
}
