// Package throttle keeps what others cause again and again from filling the log.
package throttle

import (
	"log/slog"
	"sync"
	"time"
)

// Lines knows what was logged about each subject last. The zero value knows of nothing. Its methods may be called by any
// number of goroutines.
type Lines struct {
	mu   sync.Mutex
	last map[string]line
}

type line struct {
	text string
	at   time.Time
}

// Due reports whether a text about a subject is to be logged: it is another than the last one, or again is over since; 0:
// never. It is then the last one.
func (l *Lines) Due(subject, text string, again time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	before, known := l.last[subject]
	if known && before.text == text && (again == 0 || now.Sub(before.at) < again) {
		return false
	}
	if l.last == nil {
		l.last = make(map[string]line)
	}
	l.last[subject] = line{text, now}
	return true
}

// Warn logs a line, unless one of its message was logged within the last minute. A nil log gets none.
func (l *Lines) Warn(log *slog.Logger, message string, attrs ...any) {
	if log != nil && l.Due(message, "", time.Minute) {
		log.Warn(message, attrs...)
	}
}
