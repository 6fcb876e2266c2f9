package redis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

// busy is a key that 64 clients ask for, and when it was admitted.
type busy struct {
	key    []byte
	limits atomic.Pointer[[]descriptors.Limit]
	most   uint64 // requests of its limits
	mu     sync.Mutex
	log    []span
}

// span is when a check was asked and answered; it was admitted in between. Of a loss it is when it began and was over.
type span struct{ asked, answered time.Duration }

// flushes are when all keys lost their states.
type flushes struct {
	mu  sync.Mutex
	all []span
}

// flush removes all keys from servers.
func (l *flushes) flush(t *testing.T, servers []*redistest.Server, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := span{asked: time.Since(began)}
	for _, server := range servers {
		if err := server.Client().FlushAll(t.Context()).Err(); err != nil && !goredis.IsReadOnlyError(err) {
			t.Error(err)
		}
	}
	s.answered = time.Since(began)
	l.all = append(l.all, s)
}

// Clients of three weirs that lease, of which some are killed, and whose limits change, on servers that freeze and lose
// their keys: no window of a state holds more than N.
func TestLeasesOfManyClientsRespectTheLimit(t *testing.T) {
	t.Parallel()
	for _, kind := range typesBut(topology.Ring) {
		t.Run(string(kind), func(t *testing.T) {
			checks := int64(max(*conformanceSteps, 3000)) * 100
			set := redistest.Start(t, string(kind))
			c := topology.Config{Type: kind, URL: set.URL, Fixed: true}
			stores := []*Store{opened(t, c, nil), opened(t, c, nil), opened(t, c, nil)}
			var guards [3]atomic.Pointer[guard.Guard]
			replace := func(i int) {
				guards[i].Store(guard.New(stores[i], guard.Config{Leases: true, Replicas: func() int { return len(stores) }}))
			}
			for i := range guards {
				replace(i)
			}
			keys := busyKeys(t, t.Name())
			var asked, leased atomic.Int64
			var lost flushes
			var clients sync.WaitGroup
			began := time.Now()
			for client := range 64 {
				r := rand.New(rand.NewPCG(*conformanceSeed, uint64(client)))
				clients.Go(func() {
					for asked.Add(1) <= checks && !t.Failed() {
						switch r.IntN(20_000) {
						case 0:
							replace(client % len(guards)) // it is killed
						case 1:
							keys[r.IntN(len(keys))].change(t)
						case 2, 3, 4: // what is granted meanwhile arrives when much of its bucket is over
							server := set.Servers[r.IntN(len(set.Servers))]
							server.Freeze()
							time.Sleep(time.Duration(r.Int64N(int64(50 * time.Millisecond))))
							server.Thaw()
						case 5:
							if client < 3 {
								lost.flush(t, set.Servers, began)
							}
						}
						if keys[r.IntN(len(keys))].ask(t, guards[client%len(guards)].Load(), began) == backend.FromLease {
							leased.Add(1)
						}
					}
				})
			}
			clients.Wait()
			for _, b := range keys {
				b.check(t, lost.all)
			}
			if leased.Load() == 0 {
				t.Error("no hit was admitted by a lease: the test proves nothing")
			}
			t.Logf("%d checks in %v, %d of them admitted by leases, %d losses of all states", checks,
				time.Since(began).Round(time.Second), leased.Load(), len(lost.all))
		})
	}
}

// busyKeys are keys of small and large limits, in windows of a second and more.
func busyKeys(t *testing.T, prefix string) (keys []*busy) {
	for i, n := range []uint64{10, 100, 1000, 10_000, 100_000} {
		for j, window := range []struct {
			unit  descriptors.Unit
			times uint32
		}{{descriptors.Second, 1}, {descriptors.Second, 2}, {descriptors.Second, 11}, {descriptors.Minute, 1}, {descriptors.Hour, 1}, {descriptors.Day, 1}} {
			limits := []descriptors.Limit{backendtest.NewLimit(t, n, window.unit, window.times, descriptors.SlidingWindow, 0)}
			b := &busy{key: fmt.Appendf(nil, "%s/%d/%d", prefix, i, j), most: n}
			b.limits.Store(&limits)
			keys = append(keys, b)
		}
	}
	return keys
}

// change is another configuration, now of fewer hits, now of as many as there may be.
func (b *busy) change(t *testing.T) {
	limits := slices.Clone(*b.limits.Load())
	if limits[0].Requests = b.most - limits[0].Requests/2; limits[0].Requests < b.most/2 {
		t.Errorf("%v: a test of more or fewer hits", limits)
	}
	b.limits.Store(&limits)
}

func (b *busy) ask(t *testing.T, g *guard.Guard, began time.Time) backend.Source {
	asked := time.Since(began)
	d := backendtest.Ask(t, g, backend.Check{Key: b.key, Limits: *b.limits.Load(), Hits: 1, Leases: true, Rate: 1000})
	if d.Allowed {
		b.mu.Lock()
		b.log = append(b.log, span{asked, time.Since(began)})
		b.mu.Unlock()
	}
	return d.Source
}

// check finds no window of a state in which more than so many were certainly admitted: asked when the leases of the state
// before were over, and answered before the next one.
func (b *busy) check(t *testing.T, lost []span) {
	window := (*b.limits.Load())[0].Window
	slices.SortFunc(b.log, func(x, y span) int { return int(x.asked - y.asked) })
	from := time.Duration(0)
	for _, next := range append(lost, span{asked: math.MaxInt64}) {
		state := slices.DeleteFunc(slices.Clone(b.log), func(s span) bool { return s.asked < from || s.answered >= next.asked })
		end, last := 0, time.Duration(0)
		for i, s := range state {
			for ; end < len(state) && max(last, state[end].answered) < s.asked+window; end++ {
				last = max(last, state[end].answered)
			}
			if n := end - i; n > int(b.most) {
				t.Fatalf("%s: %d were admitted within %v of a state, of %d", b.key, n, window, b.most)
			}
		}
		from = next.answered + backend.MaxLeaseTime
	}
}
