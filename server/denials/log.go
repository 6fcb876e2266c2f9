package denials

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

const (
	// lookInterval is how often the log looks for new denials, and so how late a rule's first may be logged.
	lookInterval = time.Second
	// maxLines is how many lines a look may write, so that a thousand rules that deny do not fill a disk.
	maxLines = 10
	// sweepInterval is how often rules that are gone are looked for.
	sweepInterval = 10 * time.Second
)

// Log logs a sample of the denials: of each rule at most one line in an interval, of all rules at most ten a second.
type Log struct {
	Recorder *Recorder
	Interval time.Duration // least time between two lines of a rule; 0 logs nothing
	Values   bool          // show the last denied descriptor, which may be personal
	To       *slog.Logger
}

// lastLine is the last line that the log has of a rule, with its totals then.
type lastLine struct {
	requests, hits uint64
	at             time.Time // of the last line; zero before the first
}

// Run logs denials, and sweeps the recorder, until ctx ends.
func (l *Log) Run(ctx context.Context) {
	ticks := time.NewTicker(lookInterval)
	defer ticks.Stop()
	swept := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		now := time.Now()
		if l.Interval > 0 {
			l.logDue(ctx, now)
		}
		if now.Sub(swept) >= sweepInterval {
			l.Recorder.Sweep(now)
			swept = now
		}
	}
}

// due is a rule with denials to log.
type due struct {
	slot           *slot
	requests, hits uint64 // since the last line
}

// logDue logs the rules that are due, those with the most denials first; the rules beyond maxLines stay due.
func (l *Log) logDue(ctx context.Context, now time.Time) {
	var all []due
	for _, s := range l.Recorder.slots() {
		requests, hits := s.requests.Load(), s.hits.Load()
		if requests > s.logged.requests && (s.logged.at.IsZero() || now.Sub(s.logged.at) >= l.Interval) {
			all = append(all, due{s, requests - s.logged.requests, hits - min(hits, s.logged.hits)})
		}
	}
	slices.SortFunc(all, func(a, b due) int {
		return cmp.Or(cmp.Compare(b.requests, a.requests), cmp.Compare(a.slot.rule.Path, b.slot.rule.Path))
	})
	for _, d := range all[:min(maxLines, len(all))] {
		l.line(ctx, now, &d)
	}
}

func (l *Log) line(ctx context.Context, now time.Time, d *due) {
	s := d.slot
	k, ok := s.summary(&s.denied, l.Values)
	if !ok {
		return
	}
	message, level := "requests are denied: a limit is reached", slog.LevelInfo
	switch {
	case k.Shadow:
		message = "requests would be denied, were it not for shadow mode: a limit is reached"
	case k.Last.Source == backend.FromPolicy:
		message, level = "requests are denied: the store is away, and the failure policy is deny", slog.LevelWarn
	}
	about := []any{"domain", k.Domain, "rule", descriptors.ReadablePath(k.Path), "limit", k.Last.Limit.String()}
	if k.Last.Limit.Name != "" {
		about = append(about, "name", k.Last.Limit.Name)
	}
	about = append(about, "denied_requests", d.requests, "denied_hits", d.hits)
	if !s.logged.at.IsZero() {
		about = append(about, "within", now.Sub(s.logged.at).Round(time.Second).String())
	}
	if wait := k.Last.RetryAfter(now); wait != 0 { // the line may come later than the wait was
		about = append(about, "again_in", againIn(wait))
	}
	about = append(about, "decided_by", k.Last.Source.String())
	if k.Last.Override {
		about = append(about, "override", true)
	}
	if l.Values {
		about = append(about, "descriptor", k.Descriptor)
	}
	s.logged = lastLine{s.logged.requests + d.requests, s.logged.hits + d.hits, now}
	l.To.Log(ctx, level, message, about...)
}

// againIn writes how long a denial still holds.
func againIn(wait time.Duration) string {
	if wait == backend.Never {
		return "never"
	}
	return Seconds(wait).String()
}

// Seconds rounds a wait up to whole seconds, so that a client that waits as long does not come too early.
func Seconds(wait time.Duration) time.Duration {
	return (wait + time.Second - 1).Truncate(time.Second)
}
