package connlimit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// sampleInterval is the least time between two lines of one Sampled.
const sampleInterval = 10 * time.Second

// Sampled logs one line in each sampleInterval, as clients may cause any number. It may be used concurrently.
type LogSampler struct {
	mu      sync.Mutex // protects what follows
	last    time.Time  // when a line was last logged
	skipped int        // lines since then
}

// Log logs a line with the number of lines skipped since the last, or skips it.
func (s *LogSampler) Log(to *slog.Logger, level slog.Level, message string, attrs ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.last.IsZero() && now.Sub(s.last) < sampleInterval {
		s.skipped++
		return
	}
	to.Log(context.Background(), level, message, append(attrs, "others_since", s.skipped)...)
	s.last, s.skipped = now, 0
}
