package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// Two weirs lease from one Redis, and one of them is killed while it holds hits. No more pass than fit, at most a tenth
// of them fewer, operators see what is leased, and what the killed weir held is back with its window.
func TestLeasesHoldTheLimitDespiteAKill(t *testing.T) {
	t.Parallel()
	const limit, workers = 10_000, 16
	redis := redistest.Single(t)
	var weirs [2]*weirtest.Weir
	var clients [2]*weirtest.Client
	for i := range weirs {
		weirs[i] = weirtest.Serve(t, weirtest.Rule("long", fmt.Sprint("unit: day, requests_per_unit: ", limit))+
			weirtest.Rule("short", fmt.Sprint("unit: second, unit_multiplier: 11, requests_per_unit: ", limit)),
			"REDIS_URL="+redis.Addr, weirtest.PatientRedis, "LEASES=true", "DRAIN_DELAY=0s")
		clients[i] = weirs[i].Client(t)
	}
	var admitted atomic.Int64 // under the long limit
	var killed atomic.Bool
	trickle := time.NewTicker(20 * time.Millisecond) // fast enough to lease, too slow for the limit
	defer trickle.Stop()
	hits := weirtest.StartLoad(t, workers, func(worker int) error {
		at, plan := worker%2, "long"
		switch {
		case killed.Load():
			at = 1
		case rand.IntN(2) == 0, admitted.Load() > limit/2 && !ticked(trickle):
			plan = "short" // the limit is not to be reached yet
		}
		status, err := clients[at].Hit(plan, "ann")
		if plan == "long" && status.GetCode() == rlspb.RateLimitResponse_OK {
			admitted.Add(1)
		}
		if at == 0 && killed.Load() {
			return nil // its answer may be lost
		}
		return err
	})
	for _, w := range weirs {
		w.Eventually(t, "it admits by leases, and holds one", func() error {
			m, err := w.Scrape()
			const name = "weir_lease_hits_"
			used, granted := m[name+"used_total"], m[name+"granted_total"]
			if err == nil && (used == 0 || granted == used+m[name+"returned_total"]+m[name+"left_total"]) {
				err = fmt.Errorf("%v hits granted, %v used", granted, used)
			}
			return err
		})
	}
	counted := regexp.MustCompile(`(\d+) of 10000 \((\d+) leased\)`)
	weirs[0].Eventually(t, "operators see what is leased", func() error {
		text, code := weirs[1].Command(t, "counters", "get", "--domain", "shop", "--descriptor", "plan=long,user=ann")
		shown := counted.FindStringSubmatch(text)
		if code != 0 || shown == nil {
			return fmt.Errorf("weir counters get shows %s", text)
		}
		hits, _ := strconv.Atoi(shown[1])
		if leased, _ := strconv.Atoi(shown[2]); leased > hits {
			t.Errorf("%d of %d hits are leased", leased, hits)
		}
		return nil
	})
	killed.Store(true)
	weirs[0].Kill()
	weirs[1].Eventually(t, "the limit is reached", func() error {
		if s, err := clients[1].Look("long", "ann"); err != nil || s.Code != rlspb.RateLimitResponse_OVER_LIMIT {
			return fmt.Errorf("%d are admitted, and it answers %v, %v; the load ended: %v", admitted.Load(), s, err, hits.Err())
		}
		return nil
	})
	hits.WantNoFailures(t, "one of two weirs was killed")
	if n := admitted.Load(); n > limit || n < limit*9/10-workers {
		t.Errorf("%d hits were admitted of %d a day; want no more, and at most a tenth fewer, which a killed weir may hold", n, limit)
	}
	weirs[1].Eventually(t, "nothing counts once the window has passed, also of what the killed weir held", func() error {
		if s, err := clients[1].Look("short", "ann"); err != nil || s.LimitRemaining != limit {
			return fmt.Errorf("%v, %w", s, err)
		}
		return nil
	})
}

// ticked reports whether a ticker has ticked, once a tick.
func ticked(t *time.Ticker) bool {
	select {
	case <-t.C:
		return true
	default:
		return false
	}
}
