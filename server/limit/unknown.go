package limit

import (
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/weirproxy/weir/descriptors"
)

const (
	// maxNamed is how many unknown domains are named in the log at most, until some of them become known.
	maxNamed = 100
	// maxNameLength is how much of a name tells it from others here, in bytes.
	maxNameLength = 256
)

// unknownDomains logs each domain that no file configures once while it is unknown: a misspelt one passes everything.
type unknownDomains struct {
	log *slog.Logger // nil for nobody

	mu    sync.RWMutex    // protects what follows
	named map[string]bool // cut names; nil before the first
	full  bool            // no more are named
}

func cutName(domain string) string { return domain[:min(len(domain), maxNameLength)] }

func (u *unknownDomains) noteRequest(domain string, c *descriptors.Config) {
	u.mu.RLock()
	quiet := u.log == nil || u.full || u.named[cutName(domain)]
	u.mu.RUnlock()
	if quiet {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.full || u.named[cutName(domain)]:
	case len(u.named) == maxNamed:
		u.full = true
		u.log.Warn("more domains are asked for that no file configures, and are not named here",
			"named", maxNamed, "counted_in", `weir_domain_requests_total{domain="__unknown__"}`)
	default:
		if u.named == nil {
			u.named = make(map[string]bool)
		}
		u.named[strings.Clone(cutName(domain))] = true
		u.log.Warn("a domain is asked for that no file configures, so that its requests pass uncounted: correct the domain of "+
			"Envoy's filter, or write a file for it", "domain", descriptors.Shown(domain),
			"reason", c.Explain(cutName(domain), nil).Reason)
	}
}

// forgetConfigured forgets the domains of a configuration, so that each is named if it is unknown again.
func (u *unknownDomains) forgetConfigured(c *descriptors.Config) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range slices.Concat(c.DomainNames(), c.BrokenNames()) {
		delete(u.named, cutName(name))
	}
	u.full = u.full && len(u.named) == maxNamed
}
