package connlimit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// sampleInterval is the least time between two lines of a LogSampler.
const sampleInterval = 10 * time.Second

// LogSampler logs at most one line in each sampleInterval, because clients may cause any number. It may be used
// concurrently.
type LogSampler struct {
	mu      sync.Mutex // guards the fields below
	last    time.Time  // when a line was last logged
	skipped int        // lines since then
}

// Log logs a line, with the number of lines that it has skipped since the last, or skips it.
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
