package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

const (
	sharedReplicas = 3
	sharedLimit    = 50
	sharedUsers    = 6  // whose keys spread over the servers
	sharedClients  = 24 // who ask for each of them, under each plan, so often:
	sharedRounds   = 3
)

// The fixed window is a year, so that none ends during the test.
var sharedRules = weirtest.Rule("sliding", fmt.Sprintf("unit: hour, requests_per_unit: %d, algorithm: sliding_window", sharedLimit),
	fmt.Sprintf("unit: day, requests_per_unit: %d, algorithm: sliding_window", 2*sharedLimit)) +
	weirtest.Rule("fixed", fmt.Sprintf("unit: year, requests_per_unit: %d, algorithm: fixed_window", sharedLimit))

// Routing is proven here; the short form has one server, and many without a failover.
func TestThreeReplicasAdmitExactlyTheLimitAndKeepEachHit(t *testing.T) {
	t.Parallel()
	kinds := []string{"single", "cluster"}
	if !testing.Short() {
		kinds = append(kinds, "sentinel", "ring")
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			// A server that the machine holds up for seconds must not lose its keys to another one for that.
			at := redistest.Types[kind](t, redistest.WithConfig("cluster-node-timeout 60000"))
			var replicas []*weirtest.Weir
			for range sharedReplicas {
				replicas = append(replicas, weirtest.Serve(t, sharedRules, "REDIS_TYPE="+kind, "REDIS_URL="+at, "RING_ON_NODE_LOSS=pin",
					"DRAIN_DELAY=0s", weirtest.PatientRedis, "HISTORY_FLUSH_INTERVAL=1s"))
			}
			began := time.Now()
			spend(t, replicas)
			for user := range sharedUsers {
				for _, w := range replicas {
					wantCounted(t, w, "sliding", fmt.Sprint(user), sharedLimit) // those admitted
					wantCounted(t, w, "fixed", fmt.Sprint(user), sharedClients*sharedRounds)
				}
			}
			batches, flushes := 0, 0
			for _, w := range replicas {
				metrics, err := weirtest.Scrape(w.Admin + "/metrics")
				if err != nil {
					t.Fatal(err)
				}
				batches += int(metrics["weir_history_batches_total"])
				flushes += 2 + int(time.Since(began)/time.Second) // at most: they are at whole seconds
				w.Drain(t)
			}
			var of topology.Type
			if err := of.UnmarshalText([]byte(kind)); err != nil {
				t.Fatal(err)
			}
			partitions := wantHistory(t, topology.Config{Type: of, URL: at, Timeout: process.Hang})
			// However many requests there are, at each flush a replica sends one batch to each partition that it has hits for.
			if most := partitions * flushes; batches > most {
				t.Errorf("%d batches were sent to %d partitions, want at most %d: requests cost none", batches, partitions, most)
			}
		})
	}
}

// spend lets all clients ask, and wants each user of each plan to be admitted exactly as often as the limit says. They ask
// again while a node of a ring is thought lost: with pin it is not sent anything.
func spend(t *testing.T, replicas []*weirtest.Weir) {
	t.Helper()
	for _, w := range replicas {
		for user := range sharedUsers {
			weirtest.Eventually(t, "all Redis servers answer", func() error {
				_, err := w.Client(t).Look("sliding", fmt.Sprint(user))
				return err
			})
		}
	}
	admitted := map[string]*[sharedUsers]atomic.Int64{"sliding": {}, "fixed": {}}
	var clients sync.WaitGroup
	for i := range sharedClients {
		c := replicas[i%len(replicas)].Client(t)
		clients.Go(func() {
			for n := range sharedRounds * sharedUsers {
				user := (i + n) % sharedUsers
				for plan, of := range admitted {
					s, err := c.Hit(plan, fmt.Sprint(user))
					for began := time.Now(); err != nil && time.Since(began) < process.Hang; s, err = c.Hit(plan, fmt.Sprint(user)) {
						time.Sleep(50 * time.Millisecond)
					}
					if err != nil {
						t.Errorf("a call failed: %v", err)
					} else if s.Code.String() == "OK" {
						of[user].Add(1)
					}
				}
			}
		})
	}
	clients.Wait()
	for plan, of := range admitted {
		for user := range of {
			if n := of[user].Load(); n != sharedLimit {
				t.Errorf("plan %s, user %d: %d of %d requests were admitted, want %d exactly", plan, user, n, sharedClients*sharedRounds, sharedLimit)
			}
		}
	}
}

// wantCounted asks a weir what is counted for a user of a plan.
func wantCounted(t *testing.T, w *weirtest.Weir, plan, user string, want uint64) {
	t.Helper()
	query := url.Values{"domain": {"shop"}, "descriptor": {"plan=" + plan + ",user=" + user}}
	text, err := weirtest.Get(w.Admin + "/api/v1/counters?" + query.Encode())
	var shown struct{ Limits []struct{ Hits uint64 } }
	if err == nil {
		err = json.Unmarshal([]byte(text), &shown)
	}
	if err != nil || len(shown.Limits) == 0 {
		t.Fatalf("reading the counters of plan %s, user %s: %v: %s", plan, user, err, text)
	}
	for _, l := range shown.Limits {
		if l.Hits != want {
			t.Errorf("plan %s, user %s: %d hits are counted, want %d: no hit may be lost or count twice", plan, user, l.Hits, want)
		}
	}
}

// wantHistory wants all requests in the history, each once, and returns in how many partitions they are.
func wantHistory(t *testing.T, c topology.Config) int {
	t.Helper()
	store, err := redishistory.Open(redishistory.Config{Redis: c})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	partitions, total := make(map[history.Partition]bool), uint64(0)
	err = store.Query(t.Context(), history.Query{To: history.Always().To}, func(s history.Series) error {
		partitions[s.ID.Partition()] = true
		if s.ID.Outcome <= history.Degraded { // the others are parts of these
			total += s.Lifetime
		}
		if !s.Exact() {
			t.Errorf("%+v is not exact", s.ID)
		}
		return nil
	})
	if want := uint64(2 * sharedUsers * sharedClients * sharedRounds); err != nil || total != want {
		t.Errorf("after the drains the history has %d of %d requests (%v): each is to be counted once", total, want, err)
	}
	return len(partitions)
}
