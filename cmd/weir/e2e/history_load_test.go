package e2e_test

import (
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/backend/redis"
)

var historyLoad = flag.Duration("history-load", 6*time.Second, "how long four replicas are asked 2,000 times a second; make soak asks for a minute")

// TestFourReplicasSendAFewBatchesASecondAndLoseNoRequest asks four replicas 2,000 times a second, or as often as this
// machine can, and drains them. What reaches the store does not grow with requests: at each flush every replica sends one
// batch to each partition that it has hits for.
//
// It is alone with the machine, as it takes all of it.
func TestFourReplicasSendAFewBatchesASecondAndLoseNoRequest(t *testing.T) {
	const replicas, plans, workers, rate = 4, 6, 8, 2000
	const flush = 2 * time.Second
	server := redistest.Single(t)
	var rules strings.Builder
	ids := make(map[history.ID]bool)
	for p := range plans {
		fmt.Fprintf(&rules, "- key: plan\n  value: p%d\n  descriptors:\n  - key: user\n"+
			"    rate_limit: { unit: day, requests_per_unit: %d }\n", p, []int{1_000_000_000, 1}[p%2])
	}
	var weirs []*weir
	var asked atomic.Int64
	var loads []*load
	for range replicas {
		w := startWeir(t, rules.String(), "REDIS_URL="+server.Addr, "REDIS_TIMEOUT=5s",
			fmt.Sprint("HISTORY_FLUSH_INTERVAL=", flush), "DRAIN_DELAY=0s")
		weirs = append(weirs, w)
	}
	began := time.Now()
	for _, w := range weirs {
		loads = append(loads, startLoad(t, w, workers, func(c *client) error {
			n := asked.Add(1)
			time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / rate)))
			_, err := c.hit(fmt.Sprint("p", n%plans), fmt.Sprint("user", n%50))
			return err
		}))
	}
	time.Sleep(*historyLoad)
	requests := int64(0)
	for _, l := range loads {
		l.wantNoFailures(t, "requests while the history is exported")
		requests += l.calls.Load()
	}
	took := time.Since(began)
	for _, w := range weirs {
		w.drain(t)
	}
	flushes := int64(took/flush) + 2 // those of the ends

	store := openSeries(t, redis.Config{URL: server.Addr})
	defer store.Close()
	partitions, total := make(map[history.Partition]bool), uint64(0)
	err := store.Query(t.Context(), history.Query{To: history.Always().To}, func(s history.Series) error {
		ids[s.ID] = true
		partitions[s.ID.Partition()] = true
		if s.ID.Outcome <= history.Degraded { // the others are parts of these
			total += s.Lifetime
		}
		if !s.Exact() {
			t.Errorf("%+v is not exact", s.ID)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if total != uint64(requests) {
		t.Errorf("the history has %d of %d requests, after drains: each is to be counted once", total, requests)
	}
	batches := sentBatches(t, server)
	most := replicas * int64(len(partitions)) * flushes
	t.Logf("%d requests in %v (%.0f a second) over %d replicas: %d batches to %d partitions of %d series, %.1f a second. "+
		"%d replicas × %d partitions / %v are %.1f a second", requests, took.Round(time.Millisecond),
		float64(requests)/took.Seconds(), replicas, batches, len(partitions), len(ids), float64(batches)/took.Seconds(),
		replicas, len(partitions), flush, float64(replicas*len(partitions))/flush.Seconds())
	if batches > most {
		t.Errorf("%d batches were sent, at most %d replicas × %d partitions × %d flushes = %d are to be: requests cost none",
			batches, replicas, len(partitions), flushes, most)
	}
}

// sentBatches returns how many batches a server's history has, by the positions of those who sent them.
func sentBatches(t *testing.T, server *redistest.Server) (batches int64) {
	t.Helper()
	for p := range history.Partitions {
		positions, err := server.Client().HGetAll(t.Context(), fmt.Sprintf("%s{%d}:writers", redishistory.Prefix, p)).Result()
		if err != nil {
			t.Fatal(err)
		}
		for writer, position := range positions {
			var seq int64
			if _, err := fmt.Sscan(position, &seq); err != nil {
				t.Fatalf("the position %q of %s: %v", position, writer, err)
			}
			batches += seq
		}
	}
	return batches
}
