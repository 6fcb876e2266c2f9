package memcached

import (
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/memcachedtest"
	"github.com/weirproxy/weir/backend/ratelimit"
	"github.com/weirproxy/weir/descriptors"
)

const ample = time.Minute

// hits is one check of a key that counts so many hits.
func hits(t testing.TB, key string, n uint64, l ...descriptors.Limit) backend.Check {
	t.Helper()
	return backend.Check{Key: []byte(key), Limits: l, Hits: n}
}

// ask1 decides one check, which may have no answer.
func ask1(t testing.TB, s *Store, c backend.Check) backend.Decision {
	t.Helper()
	var out [1]backend.Decision
	if err := s.Decide(t.Context(), []backend.Check{c}, out[:]); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// allowed decides a check that has to have an answer.
func allowed(t testing.TB, s *Store, c backend.Check) bool {
	t.Helper()
	return backendtest.Ask(t, s, c).Allowed
}

func limitOf(t testing.TB, n uint64, u descriptors.Unit, a descriptors.Algorithm) descriptors.Limit {
	t.Helper()
	return backendtest.NewLimit(t, n, u, 1, a, 0)
}

// Clients of three weirs ask about one key, and about a thousand, on one server and on three. Nothing is evicted.
func TestThreeStoresAdmitExactlyTheLimit(t *testing.T) {
	t.Parallel()
	for _, servers := range []int{1, 3} {
		for _, keys := range []int{1, 1000} {
			t.Run(fmt.Sprintf("%d servers, %d keys", servers, keys), func(t *testing.T) {
				t.Parallel()
				addrs := memcachedtest.StartAll(t, servers)
				n := 2000 / keys
				limits := []descriptors.Limit{limitOf(t, uint64(n), descriptors.Hour, descriptors.SlidingWindow),
					limitOf(t, uint64(n), descriptors.Day, descriptors.TokenBucket)}
				stores := []*Store{opened(t, Config{Servers: addrs}), opened(t, Config{Servers: addrs}), opened(t, Config{Servers: addrs})}
				unanswered := backendtest.ExactlyN(t, keys, n, limits, stores[0], stores[1], stores[2])
				var lost, exchanges uint64
				for _, s := range stores {
					lost, exchanges = lost+s.Stats().LostRaces, exchanges+s.Stats().Exchanges
				}
				t.Logf("%d races lost in %d exchanges, %d checks without an answer", lost, exchanges, unanswered)
			})
		}
	}
}

// Checks of one key that wait together are one exchange: a hot key is contended by weirs, not by requests.
func TestWaitingChecksOfOneKeyAreBatched(t *testing.T) {
	t.Parallel()
	s := opened(t, Config{Servers: memcachedtest.StartAll(t, 1)})
	l := limitOf(t, 100, descriptors.Minute, descriptors.SlidingWindow)
	checks, out := slices.Repeat([]backend.Check{hits(t, "hot", 1, l)}, 40), make([]backend.Decision, 40)
	if err := backend.DecideAll(t.Context(), s, checks, out); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Exchanges > 3 || st.LostRaces != 0 {
		t.Errorf("40 checks of a key took %d exchanges and lost %d races; want a few, and none", st.Exchanges, st.LostRaces)
	}
	for i := range out {
		if out[i].Before != uint64(i) {
			t.Fatalf("the check %d finds %d hits; want them in order", i, out[i].Before)
		}
	}
}

// Half of the hits come by the commands of envoyproxy/ratelimit's client, half by weir, into one number.
func TestCountsAreSharedWithRatelimit(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n, " servers"), func(t *testing.T) {
			t.Parallel()
			var servers []*memcachedtest.Server
			var addrs []string
			for range n {
				one := memcachedtest.Start(t)
				servers, addrs = append(servers, one), append(addrs, one.Addr)
			}
			now := time.Unix(1_795_000_000, 0)
			s := opened(t, Config{Servers: addrs, Keys: ratelimit.Keys{Jitter: 300}, now: func() time.Time { return now }})
			l := limitOf(t, 10, descriptors.Hour, descriptors.FixedWindow)
			for i := range 20 {
				stem := fmt.Sprintf("domain_user_%d_", i)
				name := fmt.Sprint(stem, now.Unix()/3600*3600)
				there := servers[crc32.ChecksumIEEE([]byte(name))%uint32(n)] // as gomemcache's ServerList has it
				if i%2 == 0 {
					there.Ask("add "+name+" 0 3600 1\r\n5\r\n", 1)
				}
				key := "\x00" + stem // as descriptors marks the keys of envoyproxy/ratelimit
				for hit := range 5 {
					if !allowed(t, s, hits(t, key, 1, l)) {
						t.Errorf("hit %d of %s is denied, of 10 an hour", hit, name)
					}
				}
				if i%2 == 1 {
					there.Ask("incr "+name+" 5\r\n", 1)
				}
				if got := there.Number(name); got != 10 {
					t.Fatalf("%s holds %d on the server where ratelimit's client looks; want 10, five from each", name, got)
				}
				if allowed(t, s, hits(t, key, 1, l)) {
					t.Errorf("%s is at its limit, and one more is admitted", name)
				}
			}
		})
	}
}

// A name that memcached does not take leaves requests unlimited in envoyproxy/ratelimit.
func TestInvalidMemcachedKeysAreStillLimited(t *testing.T) {
	t.Parallel()
	s := opened(t, Config{Servers: memcachedtest.StartAll(t, 3)})
	l := limitOf(t, 2, descriptors.Hour, descriptors.FixedWindow)
	for _, stem := range []string{"domain_user_two words_", "domain_user_\x7f_", fmt.Sprintf("domain_%0300d_", 1), "domain_\r\nflush_all\r\n_"} {
		key := "\x00" + stem // as descriptors marks the keys of envoyproxy/ratelimit
		var got []bool
		for range 3 {
			got = append(got, allowed(t, s, hits(t, key, 1, l)))
		}
		if !slices.Equal(got, []bool{true, true, false}) {
			t.Errorf("%.40q: %v; want two of three admitted", stem, got)
		}
		counts, err := s.Inspect(t.Context(), []byte(key), []descriptors.Limit{l})
		if err != nil || counts[0].Hits != 3 {
			t.Errorf("%.40q holds %+v, %v; want 3 hits", stem, counts, err)
		}
		if err := s.Reset(t.Context(), []byte(key)); err != nil || !allowed(t, s, hits(t, key, 1, l)) {
			t.Errorf("%.40q is denied after a reset (%v)", stem, err)
		}
	}
}
