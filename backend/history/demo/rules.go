package demo

import "github.com/weirproxy/weir/backend/history"

// rule is what a rule counts. Within and over are hits in a minute of the busiest hour.
type rule struct {
	domain, path, value string
	within, over        float64
	near                uint64  // one of so many hits within is near; 0 for none
	shadow              bool    // all that is over is let through
	since               int64   // how long ago the rule was added; 0 for always
	attack              float64 // hits in a minute of the attack
	awayToo             bool    // counted degraded while the store was away
	onTheHour           bool    // only in the first minutes of each hour
	atWork              int64   // over only in working hours, since so long ago
}

// rules are those of k8s/base/config, and mail by tenants.
var rules = [...]rule{
	{domain: "shop", path: "user", within: 42, over: .8, near: 9, attack: 150, awayToo: true},
	{domain: "shop", path: "user/path=%2Fpay", within: 6, over: .15, near: 6, attack: 380, awayToo: true},
	{domain: "shop", path: "user/path=%2Fstatic%2F*", within: 90},
	{domain: "shop", path: "route=search", within: 14, over: 2.2, near: 5, since: 120 * day},
	{domain: "shop", path: "route=report", within: 5, over: 1.5, onTheHour: true},
	{domain: "shop", path: "remote_address", within: 60, over: 1.5, shadow: true, since: 45 * day}, // on trial
	{domain: "shop", path: history.Unmatched, within: .4},
	{domain: "mail", path: "tenant", value: "tenant=acme", within: 9, over: 12, atWork: 6 * day},
	{domain: "mail", path: "tenant", value: "tenant=globex", within: 5},
	{domain: "mail", path: "tenant", value: "tenant=initech", within: 1.2, over: .1, atWork: MaxDays * day},
	{domain: "mail", path: "recipient", within: 4, since: 200 * day},
}

// The attack on paying, and the quarter of an hour without a store, are counted back from the last midnight, so that
// they are by day whenever the end is.
const (
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
	n[history.Within] = around(r.within*busy, at, 2*number)
	if of := at % day; r.atWork == 0 || ago <= r.atWork && of >= 9*hour && of < 17*hour {
		n[history.Over] = around(r.over*busy*busy, at, 2*number+1)
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
