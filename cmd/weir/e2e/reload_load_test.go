package e2e_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	reloadRounds = flag.Int("reload-rounds", 1, "how often the load is measured without and with reloads")
	reloadWindow = flag.Duration("reload-window", 3*time.Second, "how long each of the two is measured in a round")
)

// thousand returns a thousand rules, one for each user of a plan.
func thousand(perHour int) string {
	var b strings.Builder
	b.WriteString("- key: plan\n  value: basic\n  descriptors:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "  - key: user\n    value: u%d\n    rate_limit:\n      unit: hour\n      requests_per_unit: %d\n", i, perHour)
	}
	return b.String()
}

// TestAReloadOfTenThousandRulesUnderLoadFailsNoCall rewrites one of ten files every second while weir is asked at a
// steady pace, and prints how long calls took beside those of windows in which nothing changes.
//
// It is alone with the machine, as it measures.
func TestAReloadOfTenThousandRulesUnderLoadFailsNoCall(t *testing.T) {
	perHour := 1_000_000
	w := startWeir(t, thousand(perHour))
	for i := 1; i < 10; i++ {
		text := fmt.Sprintf("domain: shop%d\ndescriptors:\n%s", i, thousand(1))
		if err := os.WriteFile(filepath.Join(w.config, fmt.Sprintf("shop%d.yaml", i)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	loads := func() int { return strings.Count(w.Log.String(), `msg="configuration loaded"`) }
	eventually(t, "ten thousand rules are read", func() error {
		if !strings.Contains(w.Log.String(), "rules=10000 ") {
			return errors.New("the log does not say so")
		}
		return nil
	})
	c := w.client(t)
	var quiet, reloading [][3]time.Duration
	for range *reloadRounds {
		quiet = append(quiet, measureLoad(t, w, func() { time.Sleep(*reloadWindow) }))

		before := loads()
		reloading = append(reloading, measureLoad(t, w, func() {
			for began := time.Now(); time.Since(began) < *reloadWindow; time.Sleep(time.Second) {
				perHour++
				w.configure(t, thousand(perHour))
			}
		}))
		eventually(t, "the rules that were written last are in force", func() error {
			status, err := c.look("basic", "u7")
			if err == nil && status.GetCurrentLimit().GetRequestsPerUnit() != uint32(perHour) {
				err = fmt.Errorf("the limit is %v, want %d per hour", status.GetCurrentLimit(), perHour)
			}
			return err
		})
		t.Logf("a round of 2 × %v with %d loads of 10,000 rules", *reloadWindow, loads()-before)
	}
	for i, name := range []string{"p50", "p99", "max"} {
		t.Logf("%s  without reloads %s   with %s", name, spread(quiet, i), spread(reloading, i))
	}
}

// measureLoad asks 500 times a second while during runs, and gives the median, 99th percentile and maximum of how long
// calls took from the moment they were due.
func measureLoad(t *testing.T, w *weir, during func()) [3]time.Duration {
	t.Helper()
	const workers, rate = 8, 500
	var (
		mu    sync.Mutex // protects took
		took  []time.Duration
		asked atomic.Int64
	)
	began := time.Now()
	running := startLoad(t, w, workers, func(c *client) error {
		n := asked.Add(1)
		due := began.Add(time.Duration(n) * time.Second / rate)
		time.Sleep(time.Until(due))
		status, err := c.hit("basic", fmt.Sprint("u", n%1000))
		if err == nil && status.CurrentLimit == nil {
			err = errors.New("a request was answered without a limit, as if its rule had gone")
		}
		mu.Lock()
		defer mu.Unlock()
		took = append(took, time.Since(due))
		return err
	})
	during()
	running.wantNoFailures(t, "clients while one of ten files is read again")
	slices.Sort(took)
	return [3]time.Duration{took[len(took)/2], took[len(took)*99/100], took[len(took)-1]}
}

// spread shows the median of a figure over all rounds, and its range.
func spread(rounds [][3]time.Duration, figure int) string {
	var all []time.Duration
	for _, r := range rounds {
		all = append(all, r[figure].Round(10*time.Microsecond))
	}
	slices.Sort(all)
	return fmt.Sprintf("%8v (%v to %v)", all[len(all)/2], all[0], all[len(all)-1])
}
