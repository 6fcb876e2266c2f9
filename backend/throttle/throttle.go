// Package throttle limits repeated log lines.
package throttle

import (
	"log/slog"
	"sync"
	"time"
)

// Lines remembers the last log line about each subject. The zero value is ready. Its methods may be called by any
// number of goroutines.
type Lines struct {
	mu   sync.Mutex
	last map[string]line
}

type line struct {
	text string
	at   time.Time
}

// Due returns true, and remembers the text, if a text about a subject should be logged: if it differs from the last
// one, or if the last one is older than interval. An interval of 0 means that the same text is never logged again.
func (l *Lines) Due(subject, text string, interval time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	last, ok := l.last[subject]
	if ok && last.text == text && (interval == 0 || now.Sub(last.at) < interval) {
		return false
	}
	if l.last == nil {
		l.last = make(map[string]line)
	}
	l.last[subject] = line{text, now}
	return true
}

// Warn logs a line, unless one with the same message was logged within the last minute. A nil log logs nothing.
func (l *Lines) Warn(log *slog.Logger, message string, attrs ...any) {
	if log != nil && l.Due(message, "", time.Minute) {
		log.Warn(message, attrs...)
	}
}
