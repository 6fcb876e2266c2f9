package counter

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
)

// Nobody has to do anything for that, nor is anybody kept waiting: fail-overs of these servers begin after 3 s.
func TestAPrimaryThatIsGoneIsReplaced(t *testing.T) {
	const deadline = 20 * time.Millisecond
	gone := map[string]func(*redistest.Server){"killed": (*redistest.Server).Kill, "frozen": (*redistest.Server).Stop}
	for name, leave := range gone {
		t.Run("sentinel, "+name, func(t *testing.T) {
			set := redistest.Sentinel(t)
			s := storeAt(t, redis.Config{Type: redis.Sentinel, URL: set.Master + "," + strings.Join(set.Addrs(), ",")})
			primary := set.Await(t)
			begin := time.Now()
			stop := loadOf(s, 500, deadline)
			time.Sleep(*outageTime)
			from := time.Since(begin)
			leave(primary)
			set.AwaitFailover(t, primary)
			to := time.Since(begin)
			primary.Cont() // as a frozen one may: it is a replica now
			wait(t, "the new primary counts", func() bool {
				_, err := decide(s, deadline, "key")
				return err == nil
			})
			time.Sleep(*outageTime)
			all := stop()
			describe(t, "the fail-over", between(all, from, to), deadline)
			t.Logf("the sentinels agreed after %v; the first answer came %v after the loss", to-from, firstAnswer(all, from+200*time.Millisecond))
			describe(t, "the last 300 ms", all[len(all)-150:], deadline)
			if n := s.StatesSince(begin); n < 2 {
				t.Errorf("a key had %d states, want two or more: the replica lacks what came last", n)
			}
		})
		t.Run("cluster, "+name, func(t *testing.T) {
			set := redistest.Cluster(t)
			s := storeAt(t, redis.Config{Type: redis.Cluster, URL: strings.Join(set.Addrs(), ",")})
			lost := set.Primaries(t)[0]
			owned, key := make([]bool, 1000), ""
			for n := range owned {
				client, err := s.servers.Owner([]byte(plainKey(fmt.Sprint("key ", n))))
				if owned[n] = err == nil && client.Options().Addr == lost.Addr; owned[n] {
					key = fmt.Sprint("key ", n)
				}
			}
			begin := time.Now()
			stop := loadOf(s, 500, deadline)
			time.Sleep(*outageTime)
			from := time.Since(begin)
			leave(lost)
			wait(t, "the lost node's keys are counted again", func() bool {
				_, err := decide(s, deadline, key)
				return err == nil && time.Since(begin) > from+time.Second
			})
			lost.Cont()
			time.Sleep(*outageTime)
			all := stop()
			var its, others []called
			for _, c := range between(all, from, time.Hour) {
				if owned[c.n%1000] {
					its = append(its, c)
				} else {
					others = append(others, c)
				}
			}
			describe(t, "keys of the lost node", its, deadline)
			describe(t, "other keys", others, deadline)
			if !slices.ContainsFunc(its, func(c called) bool { return backend.ReasonOf(c.err) == backend.Down }) {
				t.Error("nobody was told at once that the lost node is away")
			}
			t.Logf("the first answer for a key of the lost node came after %v", firstAnswer(its, from+200*time.Millisecond))
			describe(t, "the last 300 ms", all[len(all)-150:], deadline)
		})
	}
}

func TestNobodyWaitsForAPrimaryThatSentinelsDoNotKnow(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinel(t)
	s := opensAt(t, redis.Config{Type: redis.Sentinel, URL: "nobody," + strings.Join(set.Addrs(), ",")})
	redistest.Eventually(t, "the breaker opens", func() error {
		_, err := decide(s, time.Second, "key")
		if servers := s.Stats().Servers; len(servers) != 1 || !servers[0].Away {
			return fmt.Errorf("it is closed, and a call got %v", err)
		}
		if backend.ReasonOf(err) != backend.Down {
			return fmt.Errorf("a call got %v for the reason %v, want down", err, backend.ReasonOf(err))
		}
		return nil
	})
}
