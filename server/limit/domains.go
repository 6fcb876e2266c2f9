package limit

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// NoDomain is the domain of requests that name none, or that came before there was a configuration: which domains are
// known was not known then.
const NoDomain = "__none__"

// domainRequests counts the requests of one domain by outcome.
type domainRequests [Outcomes]atomic.Uint64

// domains counts requests by domain: those that the configuration in force or the one before it names have a count each,
// broken ones too, and all others one together. What is kept does not grow with the names that requests bring.
type domains struct {
	none    domainRequests
	unknown domainRequests

	mu    sync.Mutex // of the one that puts a configuration in force, and of readers
	named map[string]*domainRequests
	last  map[string]*domainRequests // those of the configuration in force; it never changes
}

// apply returns the counts of the domains of a configuration that is about to be put in force. One that it has again goes
// on; one that neither it nor the one before has is forgotten.
func (d *domains) apply(c *descriptors.Config) map[string]*domainRequests {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := make(map[string]*domainRequests, c.Domains()+len(c.BrokenNames()))
	add := func(name string) {
		if next[name] = d.named[name]; next[name] == nil {
			next[name] = new(domainRequests)
		}
	}
	for _, name := range c.DomainNames() {
		add(name)
	}
	for _, name := range c.BrokenNames() {
		add(name)
	}
	d.named = maps.Clone(next)
	for name, before := range d.last {
		if d.named[name] == nil {
			d.named[name] = before
		}
	}
	d.last = next
	return next
}

// of returns where a request is counted, given the counts of the configuration that decided it, nil for none.
func (d *domains) of(domain string, r *rules) *domainRequests {
	if domain == "" || r == nil {
		return &d.none
	}
	if known := r.domains[domain]; known != nil {
		return known
	}
	return &d.unknown
}

// DomainRequests are the requests of one domain that were decided since the start, or since the domain was configured.
type DomainRequests struct {
	Domain   string // or NoDomain, or history.UnknownDomain
	Outcomes [Outcomes]uint64
}

// Requests returns the requests of each domain that is configured, and of what no configuration has, in no particular
// order. Each outcome is there, and never goes down while the domain is configured.
func (l *Limiter) Requests() []DomainRequests {
	d := &l.domains
	d.mu.Lock()
	defer d.mu.Unlock()
	sums := map[string]DomainRequests{NoDomain: {}, history.UnknownDomain: {}} // which a file may name, too
	add := func(name string, n *domainRequests) {
		sum := sums[name]
		for o := range n {
			sum.Outcomes[o] += n[o].Load()
		}
		sums[name] = sum
	}
	add(NoDomain, &d.none)
	add(history.UnknownDomain, &d.unknown)
	for name, n := range d.named {
		add(name, n)
	}
	all := make([]DomainRequests, 0, len(sums))
	for name, sum := range sums {
		sum.Domain = name
		all = append(all, sum)
	}
	return all
}
