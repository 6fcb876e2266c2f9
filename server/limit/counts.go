package limit

import (
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// ruleCounts are the requests of a domain by their results: those of the entry of what no rule matches.
type ruleCounts [Results]atomic.Uint64

// DomainRequests are the requests of one domain that were decided since the start, or since the domain was configured.
type DomainRequests struct {
	Domain  string // or descriptors.UnknownDomainName
	Results [Results]uint64
}

// Requests returns the requests of each domain that is configured, broken ones too, or was some minutes ago, and of
// unknown ones, unsorted. Each result is there, and never goes down while the domain is configured.
func (l *Limiter) Requests() (all []DomainRequests) {
	l.counts.Sweep(time.Now()) // where nothing is reloaded any more, somebody scrapes
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
