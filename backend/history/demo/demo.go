// Package demo makes up the history of a small web shop and its mail: days and nights, weekends, growth, an attack, a
// quarter of an hour without a store, a rule on trial, and customers that run over their limits.
package demo

import (
	"fmt"
	"math"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
)

// MaxDays is how far back hits can be made up.
const MaxDays = 3650

// Buckets calls yield with the buckets that a store would hold at until, of all hits since some days before, the oldest
// first, as keep says how fine they still are. It ends with the first error of yield. The same until, days and keep make
// the same hits.
func Buckets(until time.Time, days int, keep history.Keep, yield func(history.ID, history.Point) error) error {
	if days < 1 || days > MaxDays {
		return fmt.Errorf("%d days were asked for, and 1 to %d can be made up", days, MaxDays)
	}
	now := until.Unix() / minute * minute
	for at := max(0, now/day*day-int64(days-1)*day); at < now; {
		tier := tierAt(at, now, &keep)
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
	x := uint64(at/minute)*0x9e3779b97f4a7c15 + uint64(source)*0xbf58476d1ce4e5b9 // the constants of SplitMix64, which mix bits well
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
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
