package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// topologies start Redis servers of each type and give their REDIS_URL. On a busy machine a server that is well may not
// answer for seconds: it must not lose its keys to another one for that.
var topologies = []struct {
	kind  string
	start func(t *testing.T) string
}{
	{"single", func(t *testing.T) string { return redistest.Single(t).Addr }},
	{"sentinel", func(t *testing.T) string {
		set := redistest.Sentinel(t)
		return set.Master + "," + strings.Join(set.Addrs(), ",")
	}},
	{"cluster", func(t *testing.T) string {
		set := redistest.Cluster(t, redistest.WithConfig("cluster-node-timeout 5000"))
		return strings.Join(set.Addrs(), ",")
	}},
	{"ring", func(t *testing.T) string {
		var addrs []string
		for _, s := range redistest.Ring(t, 3) {
			addrs = append(addrs, s.Addr)
		}
		return strings.Join(addrs, ",")
	}},
}

// patientRedis is for tests in which no call may fail: on a busy machine half a second can pass without an answer.
const patientRedis = "REDIS_TIMEOUT=30s"

const (
	sharedLimit   = 200
	sharedUsers   = 6  // whose keys spread over the servers
	sharedClients = 64 // who ask for each of them, under each plan, so often:
	sharedRounds  = 5
)

// The fixed window is a year, so that none ends during the test.
var sharedRules = fmt.Sprintf(`
- key: plan
  value: sliding
  descriptors:
  - key: user
    rate_limits:
    - { unit: hour, requests_per_unit: %[1]d, algorithm: sliding_window }
    - { unit: day, requests_per_unit: %[2]d, algorithm: sliding_window }
- key: plan
  value: fixed
  descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: %[1]d, algorithm: fixed_window }
`, sharedLimit, 2*sharedLimit)

func TestThreeReplicasAdmitExactlyTheLimitOnEveryTopology(t *testing.T) {
	t.Parallel()
	for _, on := range topologies {
		t.Run(on.kind, func(t *testing.T) {
			t.Parallel()
			at := on.start(t)
			var replicas []*weir
			for range 3 {
				replicas = append(replicas, startWeir(t, sharedRules, "REDIS_TYPE="+on.kind, "REDIS_URL="+at,
					"RING_ON_NODE_LOSS=pin", patientRedis))
			}
			for _, w := range replicas {
				awaitUsers(t, w)
			}
			begin := time.Now()
			admitted := spend(t, replicas)
			t.Logf("%d clients of three replicas asked %d times in %v", sharedClients,
				2*sharedClients*sharedRounds*sharedUsers, time.Since(begin).Round(time.Millisecond))
			for key, n := range admitted {
				if n != sharedLimit {
					t.Errorf("%s: %d of %d requests were admitted, want %d exactly", key, n, sharedClients*sharedRounds, sharedLimit)
				}
			}
			for _, w := range replicas {
				wantCounted(t, w, "sliding", sharedLimit) // those admitted
				wantCounted(t, w, "fixed", sharedClients*sharedRounds)
			}
		})
	}
}

// awaitUsers looks at each key until its server answers.
func awaitUsers(t *testing.T, w *weir) {
	t.Helper()
	c := w.client(t)
	eventually(t, "all Redis servers answer", func() error {
		for user := range sharedUsers {
			if _, err := c.look("sliding", fmt.Sprint(user)); err != nil {
				return err
			}
		}
		return nil
	})
}

// spend lets all clients ask and gives how often each plan's user was admitted. They ask again while a node of a ring
// is thought lost: with pin it is not sent anything.
func spend(t *testing.T, replicas []*weir) map[string]int {
	t.Helper()
	var mu sync.Mutex
	admitted := make(map[string]int)
	var clients sync.WaitGroup
	for i := range sharedClients {
		c := replicas[i%len(replicas)].client(t)
		clients.Go(func() {
			for n := range sharedRounds * sharedUsers {
				user := fmt.Sprint((i + n) % sharedUsers)
				for _, plan := range []string{"sliding", "fixed"} {
					s, err := c.hit(plan, user)
					for begin := time.Now(); err != nil && time.Since(begin) < hang; s, err = c.hit(plan, user) {
						t.Logf("asking again: %v", err)
						time.Sleep(50 * time.Millisecond)
					}
					if err != nil {
						t.Errorf("a call failed: %v", err)
						return
					}
					if s.Code.String() == "OK" {
						mu.Lock()
						admitted[plan+" "+user]++
						mu.Unlock()
					}
				}
			}
		})
	}
	clients.Wait()
	if len(admitted) != 2*sharedUsers {
		t.Errorf("%d keys were admitted at all, want all %d", len(admitted), 2*sharedUsers)
	}
	return admitted
}

// wantCounted asks a replica what is counted for each user of a plan.
func wantCounted(t *testing.T, w *weir, plan string, want uint64) {
	t.Helper()
	for user := range sharedUsers {
		query := url.Values{"domain": {"shop"}, "descriptor": {fmt.Sprintf("plan=%s,user=%d", plan, user)}}
		reply, err := patient.Get(w.admin + "/api/v1/counters?" + query.Encode())
		if err != nil {
			t.Fatal(err)
		}
		var shown struct {
			Limits []struct {
				Limit string
				Hits  uint64
			}
		}
		err = json.NewDecoder(reply.Body).Decode(&shown)
		reply.Body.Close()
		if err != nil || len(shown.Limits) == 0 {
			t.Fatalf("reading the counters of %v: %s, %v", query, reply.Status, err)
		}
		for _, l := range shown.Limits {
			if l.Hits != want {
				t.Errorf("plan %s, user %d, %s: %d hits are counted, want %d: no hit may be lost or count twice",
					plan, user, l.Limit, l.Hits, want)
			}
		}
	}
}
