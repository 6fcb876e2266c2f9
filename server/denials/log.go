package denials

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// maxLines is how many lines an interval may have, so that a thousand denying rules do not fill a disk.
const maxLines = 10

// Log logs a sample of the denials: at the end of each interval one line for each rule that has denied since its last
// line, for at most ten rules. The others follow at the end of a later interval.
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
				l.logSample()
			}
			l.Recorder.rules.Sweep(now)
		}
	}
}

func (l *Log) logSample() {
	lines := 0
	for _, t := range l.Recorder.tallies() {
		s, ok := t.summary(&t.tally, l.Values)
		if !ok || s.Requests == t.logged || lines == maxLines {
			continue
		}
		message := "requests denied"
		if s.Shadow {
			message = "requests over a limit passed in shadow mode"
		}
		attrs := []any{"domain", s.Domain, "rule", descriptors.ReadablePath(s.Path), "limit", s.Last.Limit.String(),
			"requests", s.Requests - t.logged, "decided_by", s.Last.Source.String()}
		if l.Values {
			attrs = append(attrs, "descriptor", s.Descriptor)
		}
		l.To.Info(message, attrs...)
		t.logged = s.Requests
		lines++
	}
}
