package e2e_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// That leases admit no more than N, whoever is killed, is proven in backend/redis. Here: a weir leases, and says so.
func TestOperatorsSeeWhatIsLeased(t *testing.T) {
	t.Parallel()
	w := weirtest.Serve(t, largePlan, "REDIS_URL="+redistest.Single(t).Addr, weirtest.PatientRedis, "DRAIN_DELAY=0s")
	load, leased := startLoad(t, w, 4, "large", nil), regexp.MustCompile(`\d+ of 100000000 \(\d+ leased\)`)
	w.Eventually(t, "hits are admitted by a lease, and shown", func() error {
		m, err := weirtest.Scrape(w.Admin + "/metrics")
		text, code := w.Command(t, "counters", "get", "--domain", "shop", "--descriptor", "plan=large,user=ann")
		used := m["weir_lease_hits_used_total"]
		if err == nil && (used == 0 || code != 0 || !leased.MatchString(text)) {
			err = fmt.Errorf("%v hits are used of leases, and weir counters get shows %s", used, text)
		}
		return err
	})
	load.WantNoFailures(t, "a weir that leases")
}
