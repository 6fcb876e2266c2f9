package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/cmd/weir/wait"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

const (
	outageInterval = 250 * time.Millisecond // between two looks at all servers; two in a row that find one failing begin an outage
	outageCalm     = 5 * time.Second        // that all must count before it is over, so that a flapping server fills no log
)

// outages logs each outage of servers that count: its begin, with the policies that decide, and its end, with what they
// did.
type outages struct {
	limiter *limit.Limiter
	policy  descriptors.Policy // of rules that have none of their own
	kind    string             // of the servers
	log     *slog.Logger

	began, seen time.Time                    // the first and the last look that found a failing server; zero outside of an outage
	logged      bool                         // its begin
	before      [descriptors.Policies]uint64 // decisions by policies when all servers counted last
}

// logOutages logs outages of the servers until ctx ends.
func (c *counterStore) logOutages(ctx context.Context, o outages) {
	for wait.For(ctx, outageInterval) {
		o.look(time.Now(), c.failingServers())
	}
	o.end("weir ends while servers of " + o.kind + " cannot count; the descriptors that each policy decided meanwhile follow")
}

// failingServers names the servers that cannot count now, and their states.
func (c *counterStore) failingServers() []string {
	var names []string
	for name, state := range c.servers.Servers() {
		if state != backend.ServerUp {
			names = append(names, fmt.Sprintf("%s (%s)", name, state))
		}
	}
	slices.Sort(names)
	return names
}

// look notes the servers that cannot count now.
func (o *outages) look(now time.Time, servers []string) {
	switch {
	case len(servers) > 0 && o.began.IsZero():
		o.began, o.seen = now, now
	case len(servers) > 0:
		if o.seen = now; !o.logged {
			o.logged = true
			o.logBegin(servers)
		}
	case !o.logged || now.Sub(o.seen) >= outageCalm:
		o.end("all servers of " + o.kind + " count again; the descriptors that each policy decided meanwhile follow")
	}
}

// end ends an outage. It logs the end of one whose begin is in the log.
func (o *outages) end(message string) {
	decided := o.limiter.DegradedByPolicy()
	if o.logged {
		about := []any{"after", (o.seen.Sub(o.began) + outageInterval).Round(100 * time.Millisecond).String()}
		for p := descriptors.PolicyAllow; int(p) < descriptors.Policies; p++ {
			about = append(about, p.String(), decided[p]-o.before[p])
		}
		o.log.Warn(message, about...)
	}
	o.began, o.logged, o.before = time.Time{}, false, decided
}

// logBegin logs the policies that decide about requests now.
func (o *outages) logBegin(servers []string) {
	about := []any{"servers", descriptors.Abbreviate(servers...)}
	var rules [descriptors.Policies]int
	for _, r := range o.limiter.Config().Rules() {
		switch {
		case r.Unlimited:
		case r.Shadow: // which refuses nothing
			rules[descriptors.PolicyAllow]++
		default:
			rules[cmp.Or(r.OnFailure, o.policy)]++
		}
	}
	for i, n := range rules {
		if p := descriptors.Policy(i); n > 0 {
			about = append(about, p.String(), fmt.Sprintf("requests of %s %s", terminal.Count(n, "rule"), p.Effect()))
		}
	}
	o.log.Warn("servers of "+o.kind+" cannot count: until they can, failure policies decide for their keys", append(about,
		"remedy", "bring them back, or change on_backend_failure in the rules, which is in force at once")...)
}
