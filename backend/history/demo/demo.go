// Package demo generates the history of a small web shop and its mail: days and nights, weekends, growth, an attack, a
// quarter of an hour without a store, a rule in shadow mode, and customers who exceed their limits. The limits are in
// Config.
package demo

import (
	"embed"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// Config has the descriptor files of the rules, below config.
//
//go:embed config/*.yaml
var Config embed.FS

const maxDays = 3650 // the longest generated history

// Since returns the beginning of the first of a number of days, the last of which is the day of until.
func Since(until time.Time, days int) (time.Time, error) {
	if days < 1 || days > maxDays {
		return time.Time{}, fmt.Errorf("%d days were asked for, and 1 to %d can be made up", days, maxDays)
	}
	return time.Unix(max(0, until.Unix()/history.Day*history.Day-int64(days-1)*history.Day), 0), nil
}

// Buckets calls yield with the buckets that a store with a retention would have at until, of all hits from since on,
// oldest first. It returns the first error of yield. The same arguments make the same hits.
func Buckets(since, until time.Time, keep history.Retention, yield func(history.ID, history.Point) error) error {
	now := until.Unix() / history.Minute * history.Minute
	for at := since.Unix() / history.Minute * history.Minute; at < now; {
		tier := tierAt(at, now, &keep)
		for at%tier.Width() != 0 {
			tier--
		}
		end := min(at+tier.Width(), now)
		for i := range rules {
			for outcome, bucket := range bucketsIn(i, at, end, now) {
				if bucket.Sum == 0 {
					continue
				}
				id := history.ID{Domain: rules[i].domain, Path: rules[i].path, Value: rules[i].value,
					Outcome: history.Outcome(outcome)}
				bucket.Start, bucket.Tier = at, tier
				if err := yield(id, bucket); err != nil {
					return err
				}
			}
		}
		at = end
	}
	return nil
}

// tierAt returns the tier in which a store has the hits of a moment at now, after all due chunks have moved.
func tierAt(at, now int64, keep *history.Retention) history.Tier {
	t := history.Minutes
	for t < history.Days && keep.Due(history.ChunkOf(t, at), 0) <= now {
		t++
	}
	return t
}

// rule is the traffic of a rule of Config, or of requests without a rule. Numbers of hits are per minute.
type rule struct {
	domain, path, value string
	descriptor          string  // descriptor of the requests; # is the number of the caller
	within, over        float64 // mean hits in the busiest hour
	limit               uint64  // limit of a rule with one counter: further hits are over
	callerLimit         uint64  // limit of a rule with a counter for each caller
	nearEvery           uint64  // one in so many hits within is near; 0 for none
	shadow              bool    // hits over are shadow hits
	addedAgo            int64   // seconds before now at which the rule was added; 0: before all hits
	onTheHour           bool    // has hits only in the first minutes of each hour
	attack              float64 // further hits over in the attack
	retries             float64 // hits of a client that retries again and again, at any hour; 0: none
	degrades            bool    // has degraded hits while the store is away
}

// rules are the rules of Config, and the requests that no rule matches.
var rules = [...]rule{
	{domain: "shop", path: "user", descriptor: "user=u#", within: 42, over: .8, callerLimit: 10, nearEvery: 18,
		attack: 150, degrades: true},
	{domain: "shop", path: "user/path=%2Fpay", descriptor: "user=u#,path=/pay", within: 6, over: .15, callerLimit: 5,
		nearEvery: 6, attack: 380, degrades: true},
	{domain: "shop", path: "user/path=%2Fstatic%2F*", descriptor: "user=u#,path=/static/shop.css", within: 90},
	{domain: "shop", path: "route=search", descriptor: "route=search", within: 15, limit: 20, nearEvery: 3,
		addedAgo: 120 * history.Day},
	{domain: "shop", path: "route=report", descriptor: "route=report", within: 4, limit: 4, onTheHour: true},
	{domain: "shop", path: "remote_address", descriptor: "remote_address=203.0.113.#", within: 60, over: 1.5,
		callerLimit: 15, nearEvery: 18, shadow: true, addedAgo: 45 * history.Day},
	{domain: "shop", path: descriptors.UnmatchedPath, descriptor: "page=about", within: .4},
	{domain: "mail", path: "tenant", value: "tenant=acme", descriptor: "tenant=acme", within: 5,
		nearEvery: 1, limit: 10, retries: 24},
	{domain: "mail", path: "tenant", value: "tenant=globex", descriptor: "tenant=globex", within: 5, limit: 10},
	{domain: "mail", path: "tenant", value: "tenant=initech", descriptor: "tenant=initech", within: 1.2},
	{domain: "mail", path: "recipient", descriptor: "recipient=r#@example.org", within: 4, addedAgo: 200 * history.Day},
	{domain: "shop", path: "path=%2Flogin", descriptor: "path=/login", within: 9, nearEvery: 30},
}

// The times before the last midnight of the attack on paying, the quarter of an hour without a store, and the first
// retry. Counted from midnight they are by day, whatever the end of the history.
const (
	retriesAgo           = 6*history.Day - 9*history.Hour
	attackAgo, attackFor = 12*history.Day - 10*history.Hour, 2 * history.Hour
	awayAgo, awayFor     = 3*history.Day - 14*history.Hour, 15 * history.Minute
)

// hitsIn returns the hits of a rule in the minute that begins at a moment, by outcome.
func hitsIn(number int, at, now int64) (n [history.Outcomes]uint64) {
	r := &rules[number]
	ago, sinceMidnight := now-at, at-now/history.Day*history.Day
	if r.addedAgo > 0 && ago > r.addedAgo || r.onTheHour && at%history.Hour >= 5*history.Minute {
		return n
	}
	busy := busyAt(at, now)
	asked := r.within * busy
	if r.retries > 0 && sinceMidnight+retriesAgo >= 0 {
		asked = r.retries
	}
	n[history.Within] = around(asked, at, 2*number)
	n[history.Over] = around(r.over*busy*busy, at, 2*number+1)
	if r.limit > 0 && n[history.Within] > r.limit {
		n[history.Within], n[history.Over] = r.limit, n[history.Within]-r.limit
	}
	if since := sinceMidnight + attackAgo; since >= 0 && since < attackFor {
		n[history.Over] += around(r.attack, at, 2*number+1)
	}
	if since := sinceMidnight + awayAgo; r.degrades && since >= 0 && since < awayFor {
		n[history.Degraded] = n[history.Within] + n[history.Over]
		n[history.Within], n[history.Over] = 0, 0
	}
	if r.nearEvery > 0 {
		n[history.Near] = n[history.Within] / r.nearEvery
	}
	if r.shadow {
		n[history.Shadow], n[history.Over] = n[history.Over], 0
	}
	return n
}

// bucketsIn returns the sum and the largest minute of the hits of a rule between two minutes, by outcome.
func bucketsIn(number int, from, to, now int64) (all [history.Outcomes]history.Point) {
	for at := from; at < to; at += history.Minute {
		for outcome, hits := range hitsIn(number, at, now) {
			all[outcome].Sum += hits
			all[outcome].Peak = max(all[outcome].Peak, hits)
		}
	}
	return all
}

// Requests calls yield with the descriptors of all requests of the shop and its mail in the second that begins at a
// time. In a minute there are as many as Buckets has hits of it.
func Requests(at time.Time, yield func(domain string, d descriptors.Descriptor)) {
	second, start := uint64(at.Unix()%history.Minute), at.Unix()/history.Minute*history.Minute
	for i := range rules {
		n := hitsIn(i, start, start+history.Minute)
		over := n[history.Over] + n[history.Shadow]
		asked := n[history.Within] + over
		for k := asked * second / history.Minute; k < asked*(second+1)/history.Minute; k++ {
			caller := 10 + int(240*noise(start+int64(k)*history.Minute, i))
			if over > 0 && k < rules[i].callerLimit+over {
				caller = int(start / history.Minute % 10) // one caller a minute has all hits over
			}
			text := strings.Replace(rules[i].descriptor, "#", strconv.Itoa(caller), 1)
			d, _ := descriptors.ParseDescriptor(text) // cannot fail
			yield(rules[i].domain, d)
		}
	}
}

// noise returns a number from 0 to 1, always the same for a minute and a source.
func noise(at int64, source int) float64 {
	return float64(rand.NewPCG(uint64(at/history.Minute), uint64(source)).Uint64()>>11) / (1 << 53)
}

// busyByHour has the load at the beginning of each hour, from 0 to 1.
var busyByHour = [25]float64{.10, .06, .04, .03, .04, .08, .20, .45, .70, .85, .95, 1, 1, .95, .90, .95, 1, .95, .85, .75, .65, .50, .32, .18, .10}

// busyAt returns the load of a minute: by the hour, lower on weekends, and growing from month to month.
func busyAt(at, now int64) float64 {
	passed := float64(at%history.Day) / history.Hour
	h := int(passed)
	b := busyByHour[h] + (busyByHour[h+1]-busyByHour[h])*(passed-float64(h))
	if weekday := time.Unix(at, 0).UTC().Weekday(); weekday == time.Saturday || weekday == time.Sunday {
		b *= .55
	}
	return b * math.Pow(1.5, -float64(now-at)/(365*history.Day)) // half as much again in a year
}

// around returns a whole number near a mean, with some noise and, rarely, a burst.
func around(mean float64, at int64, source int) uint64 {
	spread := .6 + .8*noise(at, source)
	if noise(at, source+100) < 1./700 {
		spread *= 5
	}
	return uint64(mean*spread + noise(at, source+200))
}
