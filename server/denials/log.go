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
	// lookEvery is how often the log looks for new denials, and so how late it may tell of a rule's first.
	lookEvery = time.Second
	// maxLines is how many lines a look may write, so that a thousand rules that deny do not fill a disk.
	maxLines = 10
	// sweepEvery is how often rules that are gone are looked for.
	sweepEvery = 10 * time.Second
)

// Log tells of denials in a sample: of each rule at most one line in an interval, of all rules at most ten a second.
type Log struct {
	Recorder *Recorder
	Every    time.Duration // of each rule; 0 tells nothing
	Values   bool          // show the last denied descriptor, which may be personal
	To       *slog.Logger
}

// told is what the log has told of a rule.
type told struct {
	requests, hits uint64
	at             time.Time // of the last line; zero before the first
}

// Run tells of denials, and sweeps the recorder, until ctx ends.
func (l *Log) Run(ctx context.Context) {
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	swept := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		now := time.Now()
		if l.Every > 0 {
			l.tell(ctx, now)
		}
		if now.Sub(swept) >= sweepEvery {
			l.Recorder.Sweep(now)
			swept = now
		}
	}
}

// due is a rule with something to tell.
type due struct {
	slot           *slot
	requests, hits uint64 // since the last line
}

// tell writes the lines that are due: the rules that refused the most come first, and those that do not fit stay due.
func (l *Log) tell(ctx context.Context, now time.Time) {
	var all []due
	for _, s := range l.Recorder.slots() {
		requests, hits := s.requests.Load(), s.hits.Load()
		if requests > s.told.requests && (s.told.at.IsZero() || now.Sub(s.told.at) >= l.Every) {
			all = append(all, due{s, requests - s.told.requests, hits - min(hits, s.told.hits)})
		}
	}
	slices.SortFunc(all, func(a, b due) int {
		return cmp.Or(cmp.Compare(b.requests, a.requests), cmp.Compare(a.slot.rule.Path, b.slot.rule.Path))
	})
	for _, d := range all[:min(maxLines, len(all))] {
		l.line(ctx, now, &d)
	}
}

// line tells of one rule.
func (l *Log) line(ctx context.Context, now time.Time, d *due) {
	s := d.slot
	k, ok := s.kept(&s.denied, l.Values)
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
	if !s.told.at.IsZero() {
		about = append(about, "within", now.Sub(s.told.at).Round(time.Second).String())
	}
	about = append(about, "again_in", againIn(k.Last.RetryAfter(now)), "decided_by", k.Last.Source.String())
	if k.Last.Override {
		about = append(about, "override", true)
	}
	if l.Values {
		about = append(about, "descriptor", k.Descriptor)
	}
	s.told = told{s.told.requests + d.requests, s.told.hits + d.hits, now}
	l.To.Log(ctx, level, message, about...)
}

// againIn writes how long a denial still holds.
func againIn(wait time.Duration) string {
	switch wait {
	case backend.Never:
		return "never"
	case 0: // the line came later than the wait was
		return "now"
	}
	return Seconds(wait).String()
}

// Seconds rounds a wait up to whole seconds, so that a client that waits as long does not come too early.
func Seconds(wait time.Duration) time.Duration {
	return (wait + time.Second - 1).Truncate(time.Second)
}
