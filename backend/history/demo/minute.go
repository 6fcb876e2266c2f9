package demo

import "github.com/weirproxy/weir/backend/history"

// The series, by the index of their name.
const (
	userWithin = iota
	userOver
	userNear
	userDegraded
	payWithin
	payOver
	payNear
	payDegraded
	staticWithin
	searchWithin
	searchOver
	searchNear
	reportWithin
	reportOver
	addressWithin
	addressOver
	addressShadow
	unmatchedWithin
	acmeWithin
	acmeOver
	globexWithin
	initechWithin
	initechOver
	recipientWithin
	series
)

func shop(path string, o history.Outcome) history.ID {
	return history.ID{Domain: "shop", Path: path, Outcome: o}
}

func tenant(name string, o history.Outcome) history.ID {
	return history.ID{Domain: "mail", Path: "tenant", Value: "tenant=" + name, Outcome: o}
}

// seriesNames are the series: the rules of k8s/base/config, and mail by tenants.
var seriesNames = [series]history.ID{
	userWithin:      shop("user", history.Within),
	userOver:        shop("user", history.Over),
	userNear:        shop("user", history.Near),
	userDegraded:    shop("user", history.Degraded),
	payWithin:       shop("user/path=%2Fpay", history.Within),
	payOver:         shop("user/path=%2Fpay", history.Over),
	payNear:         shop("user/path=%2Fpay", history.Near),
	payDegraded:     shop("user/path=%2Fpay", history.Degraded),
	staticWithin:    shop("user/path=%2Fstatic%2F*", history.Within),
	searchWithin:    shop("route=search", history.Within),
	searchOver:      shop("route=search", history.Over),
	searchNear:      shop("route=search", history.Near),
	reportWithin:    shop("route=report", history.Within),
	reportOver:      shop("route=report", history.Over),
	addressWithin:   shop("remote_address", history.Within),
	addressOver:     shop("remote_address", history.Over),
	addressShadow:   shop("remote_address", history.Shadow),
	unmatchedWithin: shop(history.Unmatched, history.Within),
	acmeWithin:      tenant("acme", history.Within),
	acmeOver:        tenant("acme", history.Over),
	globexWithin:    tenant("globex", history.Within),
	initechWithin:   tenant("initech", history.Within),
	initechOver:     tenant("initech", history.Over),
	recipientWithin: {Domain: "mail", Path: "recipient", Outcome: history.Within},
}

// What happened: the first two counted back from the last midnight, so that it is by day whenever the end is; the others
// from the end.
const (
	attackAgo    = 12*day - 10*hour // on paying, for two hours
	attackFor    = 2 * hour
	awayAgo      = 3*day - 14*hour // the store, for a quarter of an hour
	awayFor      = 15 * minute
	searchAgo    = 120 * day // was there from then on
	trialAgo     = 45 * day  // likewise the shadow rule
	recipientAgo = 200 * day // likewise the second rule of mail
	acmeAgo      = 6 * day   // acme begins to send too much, in working hours
)

// minute returns what each series had in a minute.
func (w *world) minute(at int64) (n [series]uint64) {
	busy, ago, midnight := w.busy(at), w.until-at, w.until/day*day
	n[userWithin] = around(42*busy, at, userWithin)
	n[userOver] = around(.8*busy*busy, at, userOver)
	n[payWithin] = around(6*busy, at, payWithin)
	n[payOver] = around(.15*busy, at, payOver)
	if since := at - midnight + attackAgo; since >= 0 && since < attackFor {
		n[payWithin] += around(25, at, payDegraded)
		n[payOver] = around(380, at, payOver)
		n[userOver] += around(150, at, userOver)
	}
	n[staticWithin] = around(90*busy, at, staticWithin)
	n[unmatchedWithin] = around(.4*busy, at, unmatchedWithin)
	if ago <= searchAgo {
		n[searchWithin] = around(14*busy, at, searchWithin)
		n[searchOver] = around(2.2*busy*busy, at, searchOver)
		n[searchNear] = n[searchWithin] / 5
	}
	if at%hour < 5*minute { // reports are made on the hour
		n[reportWithin] = around(5*busy, at, reportWithin)
		n[reportOver] = around(1.5*busy, at, reportOver)
	}
	if ago <= trialAgo {
		n[addressWithin] = around(60*busy, at, addressWithin)
		n[addressOver] = around(1.5*busy*busy, at, addressOver)
		n[addressShadow] = n[addressOver] // all of it was let through
	}
	w.mail(&n, at, busy)
	if since := at - midnight + awayAgo; since >= 0 && since < awayFor {
		for _, from := range [...]struct{ within, over, degraded int }{
			{userWithin, userOver, userDegraded}, {payWithin, payOver, payDegraded}} {
			n[from.degraded] = n[from.within] + n[from.over]
			n[from.within], n[from.over] = 0, 0
		}
	}
	n[userNear], n[payNear] = n[userWithin]/9, n[payWithin]/6
	return n
}

func (w *world) mail(n *[series]uint64, at int64, busy float64) {
	ago := w.until - at
	n[acmeWithin] = around(9*busy, at, acmeWithin)
	n[globexWithin] = around(5*busy, at, globexWithin)
	n[initechWithin] = around(1.2*busy, at, initechWithin)
	if of := at % day; of >= 9*hour && of < 17*hour {
		if ago <= acmeAgo {
			n[acmeOver] = around(12*busy, at, acmeOver)
		}
		n[initechOver] = around(.1, at, initechOver)
	}
	if ago <= recipientAgo {
		n[recipientWithin] = around(4*busy, at, recipientWithin)
	}
}
