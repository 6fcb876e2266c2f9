// Package outage logs outages of the servers that count: when failure policies begin to decide, and how many requests
// they decided.
package outage

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

const (
	// confirmTime is how long a server must be unable to count before an outage is logged. All servers must count as long
	// to end it: a slow server that is tried after each PING seems to count for a moment.
	confirmTime = 250 * time.Millisecond
	// recoveryTime is how long all servers must count again before the end is logged: a flapping server would fill the log.
	recoveryTime = 5 * time.Second
	// baselineInterval is how often the policies' decisions are read while all servers count. Policies also decide checks
	// that are late or too many; these decisions do not belong to the next outage.
	baselineInterval = time.Second
)

// Log logs the beginning of each outage, with the policies that decide, and its end, with the number of their decisions.
type Log struct {
	Servers backend.Health
	Kind    string // Redis or memcached
	Limiter *limit.Limiter
	Policy  descriptors.Policy // the default, for rules without their own
	Log     *slog.Logger

	failedAt, recoveredAt time.Time                    // when the first server failed, and when all counted again; zero: neither
	beganAt, endedAt      time.Time                    // of the outage whose beginning is logged; zero: not yet
	baseline              [descriptors.Policies]uint64 // decisions by policy when all servers last counted
}

// Run logs outages until ctx ends. It checks the servers after each change, and when a timer ends.
func (l *Log) Run(ctx context.Context) {
	changed := make(chan struct{}, 1)
	l.Servers.Notify(changed)
	for wait := confirmTime; ; wait = l.update(time.Now(), l.failing()) {
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-changed:
		case <-timer:
		case <-ctx.Done():
			l.endedAt = cmp.Or(l.endedAt, l.recoveredAt, time.Now())
			l.end("servers of " + l.Kind + " still cannot count at shutdown")
			return
		}
	}
}

// failing returns the names and states of the servers that cannot count now.
func (l *Log) failing() (names []string) {
	for name, state := range l.Servers.Servers() {
		if state != backend.ServerUp {
			names = append(names, fmt.Sprintf("%s (%s)", name, state))
		}
	}
	slices.Sort(names)
	return names
}

// update updates the outage, given the failing servers. If no server changes, it must be called again after wait; never
// if wait is 0.
func (l *Log) update(now time.Time, failing []string) (wait time.Duration) {
	if len(failing) == 0 {
		return l.updateAllUp(now)
	}
	l.failedAt, l.recoveredAt = cmp.Or(l.failedAt, now), time.Time{}
	if wait = l.failedAt.Add(confirmTime).Sub(now); wait > 0 {
		return wait
	}
	if l.endedAt = (time.Time{}); l.beganAt.IsZero() {
		l.beganAt = l.failedAt
		l.logBegin(failing)
	}
	return 0
}

// updateAllUp is update for when all servers count.
func (l *Log) updateAllUp(now time.Time) (wait time.Duration) {
	l.recoveredAt = cmp.Or(l.recoveredAt, now)
	if wait = l.recoveredAt.Add(confirmTime).Sub(now); wait > 0 && !l.failedAt.IsZero() {
		return wait
	}
	if l.failedAt = (time.Time{}); l.beganAt.IsZero() {
		l.baseline = l.Limiter.DegradedByPolicy()
		return baselineInterval
	}
	l.endedAt = cmp.Or(l.endedAt, l.recoveredAt)
	if wait = l.endedAt.Add(recoveryTime).Sub(now); wait <= 0 {
		l.end("all servers of " + l.Kind + " count again")
		wait = baselineInterval
	}
	return wait
}

// end ends the outage, and logs its end if its beginning was logged.
func (l *Log) end(message string) {
	decided := l.Limiter.DegradedByPolicy()
	if !l.beganAt.IsZero() {
		attrs := []any{"after", l.endedAt.Sub(l.beganAt).Round(100 * time.Millisecond).String()}
		for p := descriptors.PolicyAllow; int(p) < descriptors.Policies; p++ {
			attrs = append(attrs, p.String(), decided[p]-l.baseline[p])
		}
		l.Log.Warn(message, attrs...)
	}
	l.beganAt, l.endedAt, l.baseline = time.Time{}, time.Time{}, decided
}

// logBegin logs the beginning, with the number of rules by policy.
func (l *Log) logBegin(servers []string) {
	attrs := []any{"servers", descriptors.Abbreviate(servers...)}
	var rules [descriptors.Policies]int
	for _, r := range l.Limiter.Config().Rules() {
		switch {
		case r.Unlimited:
		case r.Shadow: // it refuses nothing
			rules[descriptors.PolicyAllow]++
		default:
			rules[cmp.Or(r.OnFailure, l.Policy)]++
		}
	}
	for i, n := range rules {
		if p := descriptors.Policy(i); n == 1 {
			attrs = append(attrs, p.String(), "requests of 1 rule "+p.Effect())
		} else if n > 0 {
			attrs = append(attrs, p.String(), fmt.Sprintf("requests of %d rules %s", n, p.Effect()))
		}
	}
	l.Log.Warn("servers of "+l.Kind+" cannot count: failure policies decide", append(attrs,
		"remedy", "bring them back, or change on_backend_failure in the rules, which is in force at once")...)
}
