package limit

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirproxy/weir/descriptors"
)

const (
	// maxTold is how many unknown domains are named in the log at most, until some of them become known.
	maxTold = 100
	// maxToldName is how much of a name tells it from others here, in bytes.
	maxToldName = 256
)

// unknownDomains logs each domain that is asked for and that no file configures, once for as long as it is unknown: a
// misspelt domain lets everything pass, and nothing else tells.
type unknownDomains struct {
	log  *slog.Logger // nil for nobody
	full atomic.Bool  // no more are named
	told sync.Map     // of cut names

	mu sync.Mutex // of changes
	n  int        // names in told
}

// cutName returns what tells a domain from others.
func cutName(domain string) string { return domain[:min(len(domain), maxToldName)] }

// asked notes a request for a domain that a configuration does not have.
func (u *unknownDomains) asked(domain string, c *descriptors.Config) {
	if u.log == nil || u.full.Load() {
		return
	}
	if _, told := u.told.Load(cutName(domain)); told {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.full.Load() {
		return
	}
	if u.n == maxTold {
		u.full.Store(true)
		u.log.Warn("more domains are asked for that no file configures, and are not named here",
			"named", maxTold, "counted_in", `weir_domain_requests_total{domain="__unknown__"}`)
		return
	}
	if _, told := u.told.LoadOrStore(strings.Clone(cutName(domain)), nil); !told {
		u.n++
		u.tell(domain, c)
	}
}

// tell logs a domain, and what to do.
func (u *unknownDomains) tell(domain string, c *descriptors.Config) {
	names := c.DomainNames()
	about := []any{"domain", descriptors.Shown(domain)}
	if meant := nearest(domain, names); meant != "" {
		about = append(about, "did_you_mean", descriptors.Shown(meant))
	}
	known := "none"
	if len(names) > 0 {
		known = descriptors.Listed(names)
	}
	u.log.Warn("a domain is asked for that no file configures, so that its requests pass uncounted: correct the domain of "+
		"Envoy's filter, or write a file for it", append(about, "known", known)...)
}

// nearest returns the domain that was most likely meant, "" if none is near.
func nearest(domain string, names []string) string {
	lower := make([]string, len(names))
	for i, name := range names {
		lower[i] = strings.ToLower(name)
	}
	if i := slices.Index(lower, descriptors.Nearest(cutName(domain), lower)); i >= 0 {
		return names[i]
	}
	return ""
}

// applied forgets what it told of domains that a configuration has, so that it tells if they are unknown again.
func (u *unknownDomains) applied(c *descriptors.Config) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, names := range [][]string{c.DomainNames(), c.BrokenNames()} {
		for _, name := range names {
			if _, told := u.told.LoadAndDelete(cutName(name)); told {
				u.n--
			}
		}
	}
	u.full.Store(u.full.Load() && u.n == maxTold)
}
