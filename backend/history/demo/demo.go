// Package demo makes up the history of a small web shop and its mail: days and nights, weekends, growth, an attack, a
// quarter of an hour without a store, a rule on trial, and customers that run over their limits, which are in Config.
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

const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
)

// Config has the descriptor files of the rules whose hits are made up, below config.
//
//go:embed config/*.yaml
var Config embed.FS

const maxDays = 3650 // how far back hits can be made up

// Since returns when the first of so many days begins that end at until.
func Since(until time.Time, days int) (time.Time, error) {
	if days < 1 || days > maxDays {
		return time.Time{}, fmt.Errorf("%d days were asked for, and 1 to %d can be made up", days, maxDays)
	}
	return time.Unix(max(0, until.Unix()/day*day-int64(days-1)*day), 0), nil
}

// Buckets calls yield with the buckets that a store would hold at until, of all hits between two whole minutes, the
// oldest first, as keep says how fine they still are. It ends with the first error of yield. The same arguments make the
// same hits.
func Buckets(since, until time.Time, keep history.Keep, yield func(history.ID, history.Point) error) error {
	now := until.Unix() / minute * minute
	for at := since.Unix() / minute * minute; at < now; {
		tier := tierAt(at, now, &keep)
		for at%tier.Width() != 0 {
			tier--
		}
		end := min(at+tier.Width(), now)
		for i := range rules {
			for outcome, bucket := range rules[i].bucket(i, at, end, now) {
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

// tierAt returns how fine a store still holds a moment at now: what is due has been moved.
func tierAt(at, now int64, keep *history.Keep) history.Tier {
	t := history.Minutes
	for t < history.Days && keep.Due(history.ChunkOf(t, at), 0) <= now {
		t++
	}
	return t
}

// rule is what a rule counts. Within and over are hits in a minute of the busiest hour; over what some of its values had.
type rule struct {
	domain, path, value string
	asks                string // the descriptor; # is the caller's number
	within, over        float64
	each                uint64  // the limit of a caller in a minute, of a rule whose callers have one
	near                uint64  // every near-th hit within is near; 0 for none
	shadow              bool    // all that is over is let through
	since               int64   // how long ago the rule was added; 0 for always
	attack              float64 // hits in a minute of the attack
	awayToo             bool    // counted degraded while the store was away
	onTheHour           bool    // only in the first minutes of each hour
	most                uint64  // what is asked for above it in a minute is over, of a rule that has one count
	loop                float64 // hits in a minute of a client that tries again and again, whatever the hour
}

// rules are those of Config, and requests that none of them matches.
var rules = [...]rule{
	{domain: "shop", path: "user", asks: "user=u#", within: 42, over: .8, each: 10, near: 18, attack: 150, awayToo: true},
	{domain: "shop", path: "user/path=%2Fpay", asks: "user=u#,path=/pay", within: 6, over: .15, each: 5, near: 6, attack: 380, awayToo: true},
	{domain: "shop", path: "user/path=%2Fstatic%2F*", asks: "user=u#,path=/static/shop.css", within: 90},
	{domain: "shop", path: "route=search", asks: "route=search", within: 15, most: 20, near: 3, since: 120 * day},
	{domain: "shop", path: "route=report", asks: "route=report", within: 4, most: 4, onTheHour: true},
	{domain: "shop", path: "remote_address", asks: "remote_address=203.0.113.#", within: 60, over: 1.5, each: 15, near: 18, shadow: true,
		since: 45 * day}, // on trial
	{domain: "shop", path: history.Unmatched, asks: "page=about", within: .4},
	{domain: "mail", path: "tenant", value: "tenant=acme", asks: "tenant=acme", within: 5, near: 1, most: 10, loop: 24},
	{domain: "mail", path: "tenant", value: "tenant=globex", asks: "tenant=globex", within: 5, most: 10},
	{domain: "mail", path: "tenant", value: "tenant=initech", asks: "tenant=initech", within: 1.2},
	{domain: "mail", path: "recipient", asks: "recipient=r#@example.org", within: 4, since: 200 * day},
}

// The attack on paying, the quarter of an hour without a store and the beginning of the loop are counted back from the
// last midnight, so that they are by day whenever the end is.
const (
	loopAgo              = 6*day - 9*hour
	attackAgo, attackFor = 12*day - 10*hour, 2 * hour
	awayAgo, awayFor     = 3*day - 14*hour, 15 * minute
)

// minute returns what a rule had in a minute, by outcome.
func (r *rule) minute(number int, at, now int64) (n [history.Outcomes]uint64) {
	ago, sinceMidnight := now-at, at-now/day*day
	if r.since > 0 && ago > r.since || r.onTheHour && at%hour >= 5*minute {
		return n
	}
	busy := busyAt(at, now)
	asked := r.within * busy
	if r.loop > 0 && sinceMidnight+loopAgo >= 0 {
		asked = r.loop
	}
	n[history.Within] = around(asked, at, 2*number)
	n[history.Over] = around(r.over*busy*busy, at, 2*number+1)
	if r.most > 0 && n[history.Within] > r.most {
		n[history.Within], n[history.Over] = r.most, n[history.Within]-r.most
	}
	if since := sinceMidnight + attackAgo; since >= 0 && since < attackFor {
		n[history.Over] += around(r.attack, at, 2*number+1)
	}
	if since := sinceMidnight + awayAgo; r.awayToo && since >= 0 && since < awayFor {
		n[history.Degraded] = n[history.Within] + n[history.Over]
		n[history.Within], n[history.Over] = 0, 0
	}
	if r.near > 0 {
		n[history.Near] = n[history.Within] / r.near
	}
	if r.shadow {
		n[history.Shadow] = n[history.Over]
	}
	return n
}

// Requests calls yield with what Envoys ask for the shop and its mail in the second that begins at a time: in a minute, as
// many requests as Buckets makes hits of it.
func Requests(at time.Time, yield func(domain string, d descriptors.Descriptor)) {
	second, start := uint64(at.Unix()%minute), at.Unix()/minute*minute
	for i := range rules {
		r := &rules[i]
		n := r.minute(i, start, start+minute)
		all := n[history.Within] + n[history.Over]
		for k := all * second / minute; k < all*(second+1)/minute; k++ {
			caller := 10 + int(240*noise(start+int64(k)*minute, i))
			if over := n[history.Over]; over > 0 && k < r.each+over {
				caller = int(start / minute % 10) // one at a time runs over its limit
			}
			d, _ := descriptors.ParseDescriptor(strings.Replace(r.asks, "#", strconv.Itoa(caller), 1)) // they are right
			yield(r.domain, d)
		}
	}
}

// bucket returns what a rule had in a range, by outcome: the sum, and the largest minute.
func (r *rule) bucket(number int, from, to, now int64) (all [history.Outcomes]history.Point) {
	for at := from; at < to; at += minute {
		for outcome, hits := range r.minute(number, at, now) {
			all[outcome].Sum += hits
			all[outcome].Peak = max(all[outcome].Peak, hits)
		}
	}
	return all
}

// noise returns a number from 0 to 1, always the same for a minute and a source of noise.
func noise(at int64, source int) float64 {
	return float64(rand.NewPCG(uint64(at/minute), uint64(source)).Uint64()>>11) / (1 << 53)
}

// daily is how busy the hours of a day are, of 1.
var daily = [25]float64{.10, .06, .04, .03, .04, .08, .20, .45, .70, .85, .95, 1, 1, .95, .90, .95, 1, .95, .85, .75, .65, .50, .32, .18, .10}

// busyAt returns how busy a minute is: by the hour, quieter on weekends, and more from month to month.
func busyAt(at, now int64) float64 {
	of := float64(at%day) / hour
	h := int(of)
	b := daily[h] + (daily[h+1]-daily[h])*(of-float64(h))
	if weekday := time.Unix(at, 0).UTC().Weekday(); weekday == time.Saturday || weekday == time.Sunday {
		b *= .55
	}
	return b * math.Pow(1.5, -float64(now-at)/(365*day)) // half as much again in a year
}

// around returns a whole number near a mean: some noise, and now and then a burst.
func around(mean float64, at int64, source int) uint64 {
	spread := .6 + .8*noise(at, source)
	if noise(at, source+100) < 1./700 {
		spread *= 5
	}
	return uint64(mean*spread + noise(at, source+200))
}
