package memory

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/descriptors"
)

// ask charges hits to a key under n a minute.
func ask(t testing.TB, s *Store, key string, n, hits uint64) backend.Decision {
	t.Helper()
	limits := []descriptors.Limit{backendtest.NewLimit(t, n, descriptors.Minute, 1, descriptors.SlidingWindow, 0)}
	return backendtest.Ask(t, s, backend.Check{Key: []byte(key), Limits: limits, Hits: hits})
}

func TestEvictionTakesTheKeyReopeningFirst(t *testing.T) {
	s, clk := open(t, Config{MaxKeys: 10})
	for i := range 10 {
		ask(t, s, strconv.Itoa((i*7)%10), 1, 1)
		clk.set(s.now() + 1e6)
	}
	ask(t, s, "newcomer", 2, 1)
	if st := s.Stats(); st.Keys != 10 || st.EvictedOver != 1 || st.EvictedOpen != 0 {
		t.Fatalf("%+v; want one spent key evicted to make room", st)
	}
	if ask(t, s, "0", 1, 0).Before != 0 || ask(t, s, "newcomer", 2, 0).Before != 1 {
		t.Error("want key 0 gone, which was spent first, and the newcomer there: else it would never be limited")
	}
}

func TestEvictionPrefersReopenedKeys(t *testing.T) {
	s, clk := open(t, Config{MaxKeys: 2})
	ask(t, s, "early", 2, 1)
	clk.set(s.now() + 30e6)
	ask(t, s, "early", 2, 1) // spent until its first hit has left
	ask(t, s, "late", 1, 1)
	clk.set(s.now() + 35e6) // early has one hit left and room for another
	ask(t, s, "newcomer", 5, 1)
	if ask(t, s, "early", 2, 0).Before != 0 || ask(t, s, "late", 1, 0).Before != 1 {
		t.Error("want the key that reopened gone and the spent one kept")
	}
}

// A goroutine that had to wait for the lock must not count with the time at which it began to wait: what was counted
// meanwhile would seem to lie in the future, and move back with it.
func TestLockWaitIsNoClockStepBack(t *testing.T) {
	s, clk := open(t, Config{})
	ask(t, s, "key", 2, 1)
	sh := &s.shards[s.shardOf([]byte("key"))]
	sh.mu.Lock()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		ask(t, s, "key", 2, 0)
	}()
	time.Sleep(10 * time.Millisecond) // the goroutine waits for the lock by now, or comes later
	clk.set(s.now() + 30e6)
	limits := []descriptors.Limit{backendtest.NewLimit(t, 2, descriptors.Minute, 1, descriptors.SlidingWindow, 0)}
	sh.entries["key"].apply(&backend.Check{Limits: limits, Hits: 1}, s.now())
	sh.mu.Unlock()
	<-asked
	clk.set(s.now() + 32e6)
	if d := ask(t, s, "key", 2, 0); d.Before != 1 {
		t.Errorf("%d hits count, want the one of 32 s ago: it was counted while another goroutine waited", d.Before)
	}
}

func TestIdleKeysFollowAClockStepBack(t *testing.T) {
	s, clk := open(t, Config{MaxKeys: 10})
	for i := range 10 {
		ask(t, s, strconv.Itoa(i), 1, 1)
	}
	clk.set(s.now() - 24*3600e6)
	s.sweepAll()
	clk.set(s.now() + 62e6)
	s.sweepAll()
	if keys := s.Stats().Keys; keys != 0 {
		t.Errorf("%d keys are held a minute after the clock stepped back; none may outlast that by more than a window", keys)
	}
}

// sweepAll does in a moment what takes the sweeps a minute.
func (s *Store) sweepAll() {
	for range shards/sweepsPerSecond + 1 {
		s.sweep()
	}
}

func TestKeysExpire(t *testing.T) {
	s, clk := open(t, Config{})
	for i := range 1000 {
		ask(t, s, strconv.Itoa(i), uint64(1+i%2), 1)
		clk.set(s.now() + 1000)
	}
	clk.set(s.now() + 30e6)
	s.sweepAll()
	if keys := s.Stats().Keys; keys != 1000 {
		t.Errorf("%d of 1000 keys are held after half a window; all hits still count", keys)
	}
	clk.set(s.now() + 31e6 + 1e6)
	s.sweepAll()
	if keys := s.Stats().Keys; keys != 0 {
		t.Errorf("%d keys are held in which nothing counts", keys)
	}
}

// A flood of ten times the keys that there is room for takes the place of none that is spent, and tells what a key costs.
func TestFloodOfKeysEvictsNoSpentKey(t *testing.T) {
	room := *flood / 10
	spent := room * 9 / 10 // many of the 256 shards hold no other
	s, clk := open(t, Config{MaxKeys: room})
	before := heapInUse()
	for i := range spent {
		ask(t, s, "a spent user's key of 40 bytes "+strconv.Itoa(1_000_000_000+i), 5, 5)
	}
	for i := range *flood {
		if i%(*flood/1000) == 0 {
			clk.set(s.now() + 30_000) // 30 s in all: nothing expires
		}
		ask(t, s, "a user's key of 40 bytes "+strconv.Itoa(100_000_000_000_000+i), 5, 1)
		if keys := s.Stats().Keys; keys > int64(room) {
			t.Fatalf("%d keys are held; MaxKeys is %d", keys, room)
		}
	}
	st := s.Stats()
	perKey := (heapInUse() - before) / st.Keys
	t.Logf("%d keys held of %d, %d evicted, %d bytes a key", st.Keys, *flood, st.EvictedOpen, perKey)
	for i := range spent {
		if d := ask(t, s, "a spent user's key of 40 bytes "+strconv.Itoa(1_000_000_000+i), 5, 1); d.Allowed {
			t.Fatalf("spent key %d was let in after a flood: it got a fresh count", i)
		}
	}
	if st.EvictedOver != 0 || st.EvictedOpen != uint64(*flood+spent-room) {
		t.Errorf("%+v; want only keys with room left evicted, %d of them", st, *flood+spent-room)
	}
	if perKey > 350 {
		t.Errorf("a key of one bucket takes %d bytes; the documents say about 250, and people plan with that", perKey)
	}
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The bound must hold however many clients bring keys at once, spent ones and the same ones too.
func TestNeverMoreKeysThanMaxKeys(t *testing.T) {
	const each = 100 // of 20 clients: more than there is ever room for
	for _, room := range []int{4, 1500} {
		for name, n := range map[string]uint64{"spent": 1, "open": 100} {
			s, _ := open(t, Config{MaxKeys: room})
			var clients sync.WaitGroup
			for c := range 20 {
				clients.Go(func() {
					for i := range each {
						ask(t, s, fmt.Sprint("own ", c, i), n, 1)
						ask(t, s, fmt.Sprint("shared ", i), 100, 1)
					}
				})
			}
			clients.Wait()
			first, total := 0, 0
			for i := range s.shards {
				total += len(s.shards[i].entries)
			}
			if int64(total) != s.Stats().Keys || total > room {
				t.Errorf("%d keys, counted as %d, with room for %d", total, s.Stats().Keys, room)
			}
			for i := range 16 {
				first += len(s.shards[i].entries)
			}
			if room > 1000 && first < room/64 {
				t.Errorf("16 of 256 shards hold %d of %d %s keys: keys that hash there are forgotten at once", first, room, name)
			}
		}
	}
}
