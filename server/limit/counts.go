package limit

import (
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// ruleCounts counts requests by result. Only the entries of domains (descriptors.UnmatchedPath) are used.
type ruleCounts [Results]atomic.Uint64

// DomainRequests counts the requests of one domain since the start, or since the domain was configured.
type DomainRequests struct {
	Domain  string // or descriptors.UnknownDomainName
	Results [Results]uint64
}

// Requests returns the requests of each domain, unsorted: configured ones, with broken files too, those that were
// configured some minutes ago, and the unknown ones as one. The counts never go down while the domain is configured.
func (l *Limiter) Requests() (all []DomainRequests) {
	l.counts.Sweep(time.Now()) // without reloads, scrapes sweep
	for _, e := range l.counts.All() {
		if e.Path != descriptors.UnmatchedPath {
			continue
		}
		d := DomainRequests{Domain: e.Domain}
		for result := range d.Results {
			d.Results[result] = e.Value[result].Load()
		}
		all = append(all, d)
	}
	return all
}

// DegradedTotal returns how many decisions a policy has made for a reason since the start.
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
