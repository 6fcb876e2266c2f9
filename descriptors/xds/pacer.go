package xds

import (
	"log/slog"
	"time"
)

// maxLogged is how many responses a minute are logged.
const maxLogged = 10

// Pacer keeps a server whose state flaps from filling the log. One goroutine at a time may use it.
type Pacer struct {
	began            time.Time // of the minute
	logged, unlogged int       // events: of this minute, and since one was logged
}

// Logger returns where to log an event: nowhere if that many were logged within the last minute. The first one after some
// that were not logged tells how many.
func (p *Pacer) Logger(log *slog.Logger, perMinute int) *slog.Logger {
	if now := time.Now(); now.Sub(p.began) >= time.Minute {
		p.began, p.logged = now, 0
	}
	if p.logged == perMinute {
		p.unlogged++
		return slog.New(slog.DiscardHandler)
	}
	p.logged++
	if p.unlogged > 0 {
		log = log.With("not_logged_before", p.unlogged)
		p.unlogged = 0
	}
	return log
}
