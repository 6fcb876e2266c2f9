package historycmd

import (
	"log/slog"
	"time"
)

const progressInterval = 10 * time.Second

// progress logs now and then how far a command is.
type progress struct {
	log    *slog.Logger
	logged time.Time
}

func newProgress(log *slog.Logger) *progress { return &progress{log, time.Now()} }

// show logs a text, if it is time for one.
func (p *progress) show(text func() string) {
	if time.Since(p.logged) >= progressInterval {
		p.log.Info("at work", "done", text())
		p.logged = time.Now()
	}
}
