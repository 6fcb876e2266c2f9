package faults_test

import (
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

func blackHole(s *scene) {
	before := s.proxies[0].Counts().Connections
	s.far.BlackHole(s.T)
	s.breaks()
	s.hold()
	s.note("%d connections came through", s.proxies[0].Counts().Connections-before)
	s.far.Restore(s.T)
	s.heals()
}

func freeze(s *scene) {
	s.servers[0].Stop()
	s.breaks()
	s.hold()
	s.servers[0].Cont()
	s.heals()
}

func slowBy(d time.Duration) func(*scene) {
	return func(s *scene) {
		for _, p := range s.proxies {
			p.Delay(redistest.Replies, d)
		}
		s.breaks()
		s.hold()
		for _, p := range s.proxies {
			p.Heal()
		}
		s.heals()
	}
}

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

// countingCommand is what weir counts by, on servers that have libraries of functions.
const countingCommand = "FCALL"

func restartEmpty(s *scene) {
	s.servers[0].Kill()
	s.breaks()
	s.hold()
	s.servers[0].Restart(s.T)
	s.heals()
}
