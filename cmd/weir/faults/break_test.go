package faults_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// What rows break. Each notes when that began and, where somebody ends it, when it ended.

// during breaks something, holds it, and mends it.
func during(breaks, mends func(*scene)) func(*scene) {
	return func(s *scene) {
		breaks(s)
		s.breaks()
		s.hold()
		mends(s)
		s.heals()
	}
}

var (
	freeze = during(func(s *scene) { s.servers[0].Stop() }, func(s *scene) { s.servers[0].Cont() })

	restartEmpty = during(func(s *scene) { s.servers[0].Kill() }, func(s *scene) { s.servers[0].Restart(s.T) })

	// fill leaves no room to write in.
	fill = during(func(s *scene) { s.configure("maxmemory", "1") }, func(s *scene) { s.configure("maxmemory", "0") })
)

// restartOnceCounted waits until the replicas know of each other.
func restartOnceCounted(s *scene) {
	for _, r := range s.replicas {
		took := redistest.Eventually(s.T, "a replica has heard of the other", func() error {
			m, err := r.scrape()
			if err == nil && m["weir_replicas"] != replicas {
				err = fmt.Errorf("it knows %v, want %d", m["weir_replicas"], replicas)
			}
			return err
		})
		s.note("knew of both replicas after %s more", brief(took))
	}
	restartEmpty(s)
}

// blackHole loses what comes back from Redis, or as a proxy, all.
func blackHole(s *scene) {
	if s.far != nil && !s.far.Real {
		s.note("NOT TESTED HERE: this machine allows no network namespace; a proxy dropped bytes")
	}
	before := s.connections()
	if s.far != nil {
		s.far.BlackHole(s.T)
	} else {
		for _, p := range s.proxies {
			p.Drop(redistest.Requests)
			p.Drop(redistest.Replies)
		}
	}
	s.breaks()
	time.Sleep(200 * time.Millisecond)
	early := s.connections()
	time.Sleep(s.row.lasts() - 200*time.Millisecond)
	if s.far != nil {
		s.far.Restore(s.T)
	} else {
		dials := s.connections() - before
		s.note("%d connections in the first 200ms", early-before)
		for _, p := range s.proxies {
			p.Heal() // the connections that have lost something stay mute
		}
		most := 10*replicas*int(s.row.lasts().Seconds()) + replicas*poolSize
		s.note("%d connections were opened to it, at most %d", dials, most)
		if dials > most {
			s.errorf("%d connections were opened within %v to a server that answers none, want at most 10 a second of each replica and "+
				"one pool", dials, s.row.lasts())
		}
	}
	s.heals()
}

// poolSize is the most connections of a replica to a server, unless told otherwise.
const poolSize = 20

func (s *scene) connections() (n int) {
	for _, p := range s.proxies {
		n += p.Counts().Connections
	}
	return n
}

// watchBreakers notes when each replica first says that a breaker is open. The function that it returns says how soon
// that was.
func (s *scene) watchBreakers() (tell func()) {
	leave, left := make(chan struct{}), make(chan struct{})
	opened := make([]time.Duration, len(s.replicas))
	go func() {
		defer close(left)
		for {
			for i, r := range s.replicas {
				if opened[i] > 0 {
					continue
				}
				if m, err := r.scrape(); err == nil && m.sum("weir_redis_breaker_open", "") > 0 {
					opened[i] = s.record.now()
				}
			}
			select {
			case <-leave:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() {
		close(leave)
		<-left
		if slices.Contains(opened, 0) {
			s.errorf("a replica's breaker never opened, as weir_redis_breaker_open has it")
			return
		}
		s.note("breakers open after %s of 200ms", brief(slices.Max(opened)-s.broke))
	}
}

// slowBy delays what Redis answers.
func slowBy(d time.Duration) func(*scene) {
	return func(s *scene) {
		for _, p := range s.proxies {
			p.Delay(redistest.Replies, d)
		}
		s.breaks()
		s.hold()
		most := 0
		for _, p := range s.proxies {
			most = max(most, p.Counts().Open)
			p.Heal()
		}
		s.heals()
		s.note("%d connections to a replica's server of at most %d", most, poolSize)
		// Of a connection that weir has given up the proxy sees the end a moment later.
		if most > 2*poolSize {
			s.errorf("a replica had %d connections open to its server, twice as many as its pool holds", most)
		}
	}
}

// drip lets answers come a byte at a time.
func drip(pause time.Duration) func(*scene) {
	return during(func(s *scene) {
		for _, p := range s.proxies {
			p.Drip(redistest.Replies, pause)
		}
	}, func(s *scene) {
		for _, p := range s.proxies {
			p.Heal()
		}
	})
}

// resets ends all connections, ten times a second.
func resets(s *scene) {
	s.breaks()
	for until := time.Now().Add(s.row.lasts()); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		for _, p := range s.proxies {
			p.ResetAll()
		}
	}
	s.heals()
}

// countingCommand is what weir counts by, on servers that have libraries of functions.
const countingCommand = "FCALL"

// loseReplies lets Redis execute what it is sent, and keeps its reply, again and again.
func loseReplies(s *scene) {
	s.breaks()
	actions := []redistest.Action{redistest.SwallowReply, redistest.ResetAfter, redistest.CloseAfter}
	n := 0
	for until := time.Now().Add(s.row.lasts()); time.Now().Before(until); n++ {
		sprung := s.proxies[n%len(s.proxies)].Trap(countingCommand, actions[n%len(actions)])
		select {
		case <-sprung:
		case <-time.After(time.Second):
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, p := range s.proxies {
		p.Heal()
	}
	s.heals()
	s.note("%d replies were kept", n)
}

// once does something to the first server that needs no end.
func once(what ...any) func(*scene) {
	return func(s *scene) {
		s.must(s.servers[0].Client().Do(context.Background(), what...).Err())
		s.breaks()
		s.hold()
	}
}

// forgetCode makes Redis forget weir's library and scripts, again and again.
func forgetCode(s *scene) {
	s.breaks()
	for until := time.Now().Add(s.row.lasts()); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		for _, what := range []string{"script", "function"} {
			s.must(s.servers[0].Client().Do(context.Background(), what, "flush").Err())
		}
	}
}

// configure sets a value of the first server's configuration.
func (s *scene) configure(name, value string) {
	s.must(s.servers[0].Client().ConfigSet(context.Background(), name, value).Err())
}

// evict writes so much else into a server without room that it forgets keys all the time.
func evict(s *scene) {
	ctx, c := context.Background(), s.servers[0].Client()
	padding, n := strings.Repeat("x", 4<<10), 0
	pad := func() {
		s.must(c.Set(ctx, fmt.Sprint("padding-", n), padding, 0).Err())
		n++
	}
	for n < 500 {
		pad()
	}
	used, err := s.servers[0].Info(ctx, "memory")
	s.must(err)
	s.configure("maxmemory-policy", "allkeys-lru")
	s.configure("maxmemory", used["used_memory"])
	s.breaks()
	before := s.servers[0].Stat(s.T, "evicted_keys")
	for until := time.Now().Add(s.row.lasts()); time.Now().Before(until); time.Sleep(2 * time.Millisecond) {
		pad()
	}
	s.note("%d keys were evicted, %d written besides weir's", s.servers[0].Stat(s.T, "evicted_keys")-before, n)
	s.configure("maxmemory", "0")
	s.heals()
}

// appear brings up a server that was not there when weir started.
func appear(s *scene) {
	s.breaks()
	if err := wantStatus(s.replicas[0].admin + "/readyz"); err != nil {
		s.note("not ready until then")
	} else {
		s.note("ready all the while")
	}
	s.hold()
	s.servers[0].Restart(s.T)
	s.heals()
}

// loading restarts a server that reads its file for as long as the row says before it answers.
func loading(s *scene) {
	const keys = 1000
	ctx, c := context.Background(), s.servers[0].Client()
	s.must(c.Do(ctx, "debug", "populate", keys, "padding", 1000).Err(), c.Save(ctx).Err())
	s.configure("key-load-delay", fmt.Sprint((s.row.lasts() / keys).Microseconds()))
	s.must(c.ConfigRewrite(ctx).Err())
	s.breaks()
	s.servers[0].Restart(s.T) // it returns when all is loaded
	s.heals()
}
