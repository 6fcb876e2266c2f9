// Package outage logs the outages of the servers that count: when failure policies begin to decide, and what they did.
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
	// confirmTime is for how long servers must be unable to count until that is an outage. If all count for less than that
	// meanwhile, as while a slow server is tried after each PING, it is the same one.
	confirmTime = 250 * time.Millisecond
	// calmTime is for how long there must be none until it is over, so that a flapping server fills no log.
	calmTime = 5 * time.Second
	// decisionsTime is how often the policies' decisions are read while all count: those on checks that were only late, or
	// too many, belong to no outage.
	decisionsTime = time.Second
)

// Log logs each outage: its begin, with the policies that decide, and its end, with what they did.
type Log struct {
	Servers backend.Health
	Kind    string // of the servers: Redis or memcached
	Limiter *limit.Limiter
	Policy  descriptors.Policy // of rules that have none of their own
	Log     *slog.Logger

	failed, counted time.Time                    // since when servers fail, and since when all count; zero: they do not
	began, ended    time.Time                    // the outage whose begin is in the log; zero: not yet
	before          [descriptors.Policies]uint64 // decisions by policies when all servers counted last
}

// Run logs outages until ctx ends. It looks at the servers after each change, and when a time is over.
func (l *Log) Run(ctx context.Context) {
	changed := make(chan struct{}, 1)
	l.Servers.Notify(changed)
	for again := confirmTime; ; again = l.look(time.Now(), l.failing()) {
		var over <-chan time.Time
		if again > 0 {
			over = time.After(again)
		}
		select {
		case <-changed:
		case <-over:
		case <-ctx.Done():
			l.ended = cmp.Or(l.ended, l.counted, time.Now())
			l.end("weir ends while servers of " + l.Kind + " cannot count; the descriptors that each policy decided meanwhile follow")
			return
		}
	}
}

// failing names the servers that cannot count now, and their states.
func (l *Log) failing() (names []string) {
	for name, state := range l.Servers.Servers() {
		if state != backend.ServerUp {
			names = append(names, fmt.Sprintf("%s (%s)", name, state))
		}
	}
	slices.Sort(names)
	return names
}

// look notes the servers that cannot count now. It returns when it must look again even if nothing changes; 0: never.
func (l *Log) look(now time.Time, failing []string) (again time.Duration) {
	if len(failing) == 0 {
		return l.lookCalm(now)
	}
	l.failed, l.counted = cmp.Or(l.failed, now), time.Time{}
	if again = l.failed.Add(confirmTime).Sub(now); again > 0 {
		return again
	}
	if l.ended = (time.Time{}); l.began.IsZero() {
		l.began = l.failed
		l.logBegin(failing)
	}
	return 0
}

// lookCalm is look while all servers count.
func (l *Log) lookCalm(now time.Time) (again time.Duration) {
	l.counted = cmp.Or(l.counted, now)
	if again = l.counted.Add(confirmTime).Sub(now); again > 0 && !l.failed.IsZero() {
		return again
	}
	if l.failed = (time.Time{}); l.began.IsZero() {
		l.before = l.Limiter.DegradedByPolicy()
		return decisionsTime
	}
	l.ended = cmp.Or(l.ended, l.counted)
	if again = l.ended.Add(calmTime).Sub(now); again <= 0 {
		l.end("all servers of " + l.Kind + " count again; the descriptors that each policy decided meanwhile follow")
		again = decisionsTime
	}
	return again
}

// end logs the end of an outage whose begin is in the log.
func (l *Log) end(message string) {
	decided := l.Limiter.DegradedByPolicy()
	if !l.began.IsZero() {
		about := []any{"after", l.ended.Sub(l.began).Round(100 * time.Millisecond).String()}
		for p := descriptors.PolicyAllow; int(p) < descriptors.Policies; p++ {
			about = append(about, p.String(), decided[p]-l.before[p])
		}
		l.Log.Warn(message, about...)
	}
	l.began, l.ended, l.before = time.Time{}, time.Time{}, decided
}

// logBegin logs the policies that decide about requests now.
func (l *Log) logBegin(servers []string) {
	about := []any{"servers", descriptors.Abbreviate(servers...)}
	var rules [descriptors.Policies]int
	for _, r := range l.Limiter.Config().Rules() {
		switch {
		case r.Unlimited:
		case r.Shadow: // which refuses nothing
			rules[descriptors.PolicyAllow]++
		default:
			rules[cmp.Or(r.OnFailure, l.Policy)]++
		}
	}
	for i, n := range rules {
		if p := descriptors.Policy(i); n == 1 {
			about = append(about, p.String(), "requests of 1 rule "+p.Effect())
		} else if n > 0 {
			about = append(about, p.String(), fmt.Sprintf("requests of %d rules %s", n, p.Effect()))
		}
	}
	l.Log.Warn("servers of "+l.Kind+" cannot count: until they can, failure policies decide for their keys", append(about,
		"remedy", "bring them back, or change on_backend_failure in the rules, which is in force at once")...)
}
