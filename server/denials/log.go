package denials

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// maxLines is how many lines an interval may have, so that a thousand rules that deny do not fill a disk.
const maxLines = 10

// Log logs a sample of the denials: at the end of each interval a line of each rule that has denied since its last, of
// ten rules at most. The others have theirs at the end of a later one.
type Log struct {
	Recorder *Recorder
	Interval time.Duration // 0 logs nothing
	Values   bool          // show the last denied descriptor, which may be personal
	To       *slog.Logger
}

// Run logs denials, and sweeps the recorder, until ctx ends.
func (l *Log) Run(ctx context.Context) {
	ticks := time.NewTicker(cmp.Or(l.Interval, time.Minute))
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			if l.Interval > 0 {
				l.logSome()
			}
			l.Recorder.rules.Sweep(now)
		}
	}
}

func (l *Log) logSome() {
	lines := 0
	for _, s := range l.Recorder.tallies() {
		k, ok := s.summary(&s.tally, l.Values)
		if !ok || k.Requests == s.logged || lines == maxLines {
			continue
		}
		message := "requests are denied: a limit is reached"
		if k.Shadow {
			message = "requests would be denied, were it not for shadow mode: a limit is reached"
		}
		about := []any{"domain", k.Domain, "rule", descriptors.ReadablePath(k.Path), "limit", k.Last.Limit.String(),
			"denied_requests", k.Requests - s.logged, "decided_by", k.Last.Source.String()}
		if l.Values {
			about = append(about, "descriptor", k.Descriptor)
		}
		l.To.Info(message, about...)
		s.logged = k.Requests
		lines++
	}
}
