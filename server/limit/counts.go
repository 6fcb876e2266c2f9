package limit

import (
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// NoDomain is the domain of requests that name none, or that came before the first configuration.
const NoDomain = "__none__"

// counts are what the limiter counts of a rule, or of what none matches in a domain.
type counts struct {
	requests requests // of the domain; only of what no rule matches
	returns  returns
}

// requests counts requests by result.
type requests [Results]atomic.Uint64

// degraded counts decisions that were made while no store decides.
type degraded [backend.Reasons][descriptors.Policies]atomic.Uint64

// DomainRequests are the requests of one domain that were decided since the start, or since the domain was configured.
type DomainRequests struct {
	Domain  string // or NoDomain, or history.UnknownDomain
	Results [Results]uint64
}

// Requests returns the requests of each domain that is configured, broken ones too, or was some minutes ago, and of
// unknown ones, unsorted. Each result is there, and never goes down while the domain is configured.
func (l *Limiter) Requests() []DomainRequests {
	l.counts.Sweep(time.Now())           // where nothing is reloaded any more, somebody scrapes
	sums := map[string]*DomainRequests{} // a file may name NoDomain, too
	add := func(domain string, n *requests) {
		if sums[domain] == nil {
			sums[domain] = &DomainRequests{Domain: domain}
		}
		for result := range n {
			sums[domain].Results[result] += n[result].Load()
		}
	}
	add(NoDomain, &l.noDomain)
	add(history.UnknownDomain, new(requests))
	for _, e := range l.counts.All() {
		add(e.Domain, &e.Kept.requests)
	}
	all := make([]DomainRequests, 0, len(sums))
	for _, sum := range sums {
		all = append(all, *sum)
	}
	return all
}

// DegradedTotal returns how many decisions there were since the start for a reason and by a policy, of all rules.
func (l *Limiter) DegradedTotal(r backend.Reason, p descriptors.Policy) uint64 {
	return l.degraded[r][p].Load()
}

// DegradedByPolicy returns how many decisions each policy has made since the start, for all reasons together.
func (l *Limiter) DegradedByPolicy() (sums [descriptors.Policies]uint64) {
	for reason := range l.degraded {
		for policy := range sums {
			sums[policy] += l.degraded[reason][policy].Load()
		}
	}
	return sums
}
