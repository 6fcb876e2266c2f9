package e2e_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// Three nodes of a history become five while a client counts. The mover is killed in the middle and started again, and weir
// is killed and started once: no hit is there twice, and none is missing but for those that the killed weir had not stored.
func TestRingMovesPastKilledMoverAndWeir(t *testing.T) {
	t.Parallel()
	nodes := redistest.Ring(t, 5)
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr)
	}
	three, five := strings.Join(addrs[:3], ","), strings.Join(addrs, ",")
	env := []string{"REDIS_TYPE=ring", "REDIS_HISTORY_URL=" + three, weirtest.PatientRedis}
	var rules strings.Builder
	for i := range ringRules {
		fmt.Fprintf(&rules, "- key: r%d\n  rate_limit: {unit: hour, requests_per_unit: 1000000}\n", i)
	}
	w := weirtest.Serve(t, rules.String(), append(env, "HISTORY_FLUSH_INTERVAL=1s", "DRAIN_DELAY=0s")...)
	var c countingClient
	stop := c.start(t, w)
	stored := func(more float64) (hits float64) {
		awaitMetrics(t, w, "more hits are stored", func(m weirtest.Metrics) bool {
			hits = m["weir_history_landed_hits_total"]
			return hits >= more
		})
		return hits
	}
	stored(50)
	killInMidst(t, nodes[0], env, five, three)
	awaitMetrics(t, w, "weir tells of a move that has not ended", func(m weirtest.Metrics) bool {
		return m["weir_history_partitions_to_move"] > 0 && m.Sum("weir_history_partitions", "") == 256
	})
	landed := uint64(stored(100))
	w.Kill()
	unstored := c.answered.Load() - landed
	w.Restart(t)
	for _, n := range nodes { // of the mover that was killed
		weirtest.Eventually(t, "its locks have ended", func() error {
			if held := n.Client().Get(t.Context(), "weir:h:mover").Val(); held != "" {
				return fmt.Errorf("there is %q", held)
			}
			return nil
		})
	}
	const ends = "Now set REDIS_HISTORY_URL="
	if printed, code := process.Command(t, env, process.Weir(t), "history", "move", "--to", five); code != 0 || !strings.Contains(printed, ends) {
		t.Fatalf("the mover that was started again ends with %d and prints\n%s", code, printed)
	}
	stored(100)
	stop()
	answered, unsure := c.answered.Load(), c.failed.Load()
	w.Eventually(t, "the history has all hits, but for what the killed weir had not stored", func() error {
		all, err := w.Lifetimes()
		if hits := all["within"]; err != nil || hits+unstored < answered || hits > answered+unsure || len(all) != 1 {
			err = fmt.Errorf("it has %v (%v), want %d hits, at most %d fewer, and at most %d more, which nobody was told of",
				all, err, answered, unstored, unsure)
		}
		return err
	})
	awaitMetrics(t, w, "weir knows where all hits are", func(m weirtest.Metrics) bool {
		for _, addr := range addrs {
			if m[fmt.Sprintf("weir_history_partitions{node=%q}", addr)] == 0 {
				return false
			}
		}
		return m["weir_history_landed_hits_total"] == m["weir_history_recorded_hits_total"] && m["weir_history_waiting_cells"] == 0 &&
			m["weir_history_partitions_to_move"] == 0 && m["weir_history_moved_bytes_total"] > 0 && m["weir_history_lost_hits_total"] == 0
	})
	env[1] = "REDIS_HISTORY_URL=" + five
	if printed, code := process.Command(t, env, process.Weir(t), "history", "verify"); code != 0 {
		t.Errorf("weir history verify ends with %d and prints %s", code, printed)
	}
	if all, err := w.Lifetimes(); err != nil || all["within"] > answered+unsure {
		t.Errorf("the history has %v (%v) in the end, and at most %d hits were asked for", all, err, answered+unsure)
	}
}

// ringRules is how many rules, each with a series, TestRingMovesPastKilledMoverAndWeir has.
const ringRules = 40

// countingClient sends single hits, and counts those that were answered.
type countingClient struct{ answered, failed atomic.Uint64 }

func (c *countingClient) start(t *testing.T, w *weirtest.Weir) (stop func()) {
	asks := w.Client(t)
	end, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			case <-time.After(10 * time.Millisecond): // its hits are to be many, and take a machine little
			}
			if _, err := asks.Ask("shop", weirtest.Describe(fmt.Sprint("r", i%ringRules), "ann")); err != nil {
				c.failed.Add(1)
			} else {
				c.answered.Add(1)
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// awaitMetrics waits until what weir tells Prometheus is as it should be.
func awaitMetrics(t *testing.T, w *weirtest.Weir, promise string, reached func(m weirtest.Metrics) bool) {
	t.Helper()
	w.Eventually(t, promise, func() error {
		m, err := w.Scrape()
		if err == nil && !reached(m) {
			text, _ := weirtest.Get(w.Admin + "/metrics")
			err = fmt.Errorf("it tells %q", regexp.MustCompile(`(?m)^weir_history.*$`).FindAllString(text, -1))
		}
		return err
	})
}

// killInMidst starts movers until one was killed in the middle: where one has ended before, the next goes back.
func killInMidst(t *testing.T, node *redistest.Server, env []string, to, back string) {
	t.Helper()
	left := regexp.MustCompile(`"left":(\d+)`)
	for {
		mover := process.Start(t, "weir history move", env, process.Weir(t), "history", "move", "--to", to)
		for mover.Ended() == nil {
			table := node.Client().Get(t.Context(), "weir:h:placement").Val()
			if m := left.FindStringSubmatch(table); m != nil {
				if n, _ := strconv.Atoi(m[1]); n > 10 && n < 90 {
					mover.Kill()
					return
				}
			}
			time.Sleep(time.Millisecond)
		}
		to, back = back, to
	}
}
