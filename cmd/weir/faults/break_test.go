package faults_test

import (
	"context"
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
	freeze = during(func(s *scene) { s.servers[0].Freeze() }, func(s *scene) { s.servers[0].Thaw() })

	restartEmpty = during(func(s *scene) { s.servers[0].Kill() }, func(s *scene) { s.servers[0].Restart(s.T) })

	// fillRedis leaves no room to write in.
	fillRedis = during(func(s *scene) { s.configure("maxmemory", "1") }, func(s *scene) { s.configure("maxmemory", "0") })
)

// spoil damages replies.
var spoil = during(func(s *scene) {
	for _, p := range s.proxies {
		p.Spoil(20)
	}
}, (*scene).mendProxies)

// mendProxies lets all through again.
func (s *scene) mendProxies() {
	for _, p := range s.proxies {
		p.Heal()
	}
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
	s.mendProxies()
	s.heals()
	s.note("%d replies were kept", n)
}

// configure sets a value of the first server's configuration.
func (s *scene) configure(name, value string) {
	s.must(s.servers[0].Client().ConfigSet(context.Background(), name, value).Err())
}

// appear brings up a server that was not there when weir started.
var appear = during(func(*scene) {}, func(s *scene) { s.servers[0].Restart(s.T) })

// kill ends a server for good: of a cluster the primary of a third of the slots.
func kill(s *scene) {
	primaries := s.servers
	if s.cluster != nil {
		primaries = s.cluster.Primaries(s.T)
	}
	s.elsewhere = make(map[string]bool)
	for _, server := range primaries[1:] {
		names, err := server.Client().Keys(s.Context(), "weir:*shop*").Result()
		s.must(err)
		for _, name := range names {
			_, end, _ := strings.Cut(name, "}")
			s.elsewhere[end] = true
		}
	}
	primaries[0].Kill()
	s.breaks()
	s.hold()
}

// split lets each replica reach another server, which both take writes, as the two sides of a partition do.
func split(s *scene) {
	other := redistest.Single(s.T)
	move := func(p *redistest.FaultProxy) {
		p.Redirect(other.Addr)
		p.ResetAll()
	}
	move(s.proxies[1])
	s.breaks()
	s.hold()
	move(s.proxies[0])
	s.heals()
}
