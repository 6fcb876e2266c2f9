package redis

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// probeGap is how long after a probe the next one follows at the earliest, whatever happens in between.
	probeGap = time.Second
	// longestGap is how long a server that has left may be back, or another may leave as well, until it is noticed
	// without any check that tells.
	longestGap = 5 * time.Second
)

// status is what is known about the servers. All are probed at the start and, once they can count, whenever a check got
// no answer: a check alone says little, since its caller may just have been in a hurry. What a probe finds to have
// changed is logged, once for each server.
type status struct {
	topology topology
	log      *slog.Logger
	began    time.Time
	pause    time.Duration // between the first probes; it doubles
	longest  time.Duration
	giveUp   time.Duration // after began; 0 never

	stop     context.CancelFunc
	done     sync.WaitGroup
	news     chan struct{} // has a token if a check contradicted what is known
	troubled atomic.Bool   // a server was away at the last probe
	counted  atomic.Bool   // a server has shown once that it can count
	latest   atomic.Pointer[error]
	settled  chan struct{} // closed once a server can count, or giveUp is over

	// The goroutine's own: what was logged last, with "" for a server that can count.
	known   map[string]string
	listing string
}

var errNotProbed = errors.New("redis has not been asked yet whether it can count")

// watch probes the servers of a topology in the background. The configuration has its defaults.
func watch(t topology, c Config) *status {
	ctx, cancel := context.WithCancel(context.Background())
	s := &status{
		topology: t, log: c.Log, began: time.Now(),
		pause: c.ProbePause, longest: c.LongestProbePause, giveUp: c.GiveUp,
		stop: cancel, news: make(chan struct{}, 1), settled: make(chan struct{}), known: make(map[string]string),
	}
	s.latest.Store(&errNotProbed)
	s.done.Go(func() { s.run(ctx) })
	return s
}

// ready is nil as soon as one server can count, and stays it: what happens to servers later is for the failure policy
// of each rule, not a reason to send requests elsewhere.
func (s *status) ready() error {
	if s.counted.Load() {
		return nil
	}
	return s.answers()
}

// answers is nil if one server could count at the last probe.
func (s *status) answers() error { return *s.latest.Load() }

// hear is told of each check whether it was answered. It is on the way of every check, and costs a comparison unless
// what is known is wrong.
func (s *status) hear(answered bool) {
	if s == nil || answered != s.troubled.Load() {
		return
	}
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// close ends the probes.
func (s *status) close() {
	s.stop()
	s.done.Wait()
}

func (s *status) run(ctx context.Context) {
	for pause := s.pause; ; {
		found, err := probeAll(ctx, s.topology)
		if ctx.Err() != nil {
			return
		}
		probed := time.Now()
		if s.take(found, err) {
			pause = s.pause
		}
		s.settle()
		if !s.wait(ctx, pause) {
			return
		}
		if rest := time.Until(probed.Add(min(probeGap, s.pause))); !sleep(ctx, rest) {
			return
		}
		pause = min(2*pause, s.longest)
		if s.counted.Load() {
			pause = min(pause, longestGap)
		}
	}
}

// settle lets those go on who wait for the first server, if there is one or no more time.
func (s *status) settle() {
	if !s.counted.Load() && (s.giveUp == 0 || time.Since(s.began) < s.giveUp) {
		return
	}
	select {
	case <-s.settled:
	default:
		close(s.settled)
	}
}

// wait waits until a probe is worth its while: while all servers can count, until a check got no answer; else for about
// a pause, or until one got an answer. The last probe before giving up is not before its time, so that a server that
// came late is found.
func (s *status) wait(ctx context.Context, pause time.Duration) bool {
	if !s.troubled.Load() {
		select {
		case <-s.news:
			return true
		case <-ctx.Done():
			return false
		}
	}
	pause = pause/2 + rand.N(pause/2+1)
	if left := s.giveUp - time.Since(s.began); s.giveUp > 0 && left > 0 {
		pause = min(pause, left)
	}
	select {
	case <-s.news:
		return true
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// finding is what a probe found out about a server.
type finding struct {
	server
	err error
}

// trouble is what is wrong, without what differs from one time to the next, as ports do.
func (f finding) trouble() string {
	var reply goredis.Error
	switch {
	case f.err == nil:
		return ""
	case errors.As(f.err, &reply):
		return reply.Error()
	default:
		return away
	}
}

// away is the trouble with a server that does not answer at all.
const away = "away"

// probeAll probes all servers at once. Its error tells of a topology that does not know them.
func probeAll(ctx context.Context, t topology) ([]finding, error) {
	servers, err := t.servers(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(servers, func(a, b server) int { return strings.Compare(a.name, b.name) })
	found := make([]finding, len(servers))
	var running sync.WaitGroup
	for i, s := range servers {
		running.Go(func() { found[i] = finding{s, probe(ctx, s)} })
	}
	running.Wait()
	return found, nil
}

// take makes what was found what is known, and says whether it differs.
func (s *status) take(found []finding, err error) (changed bool) {
	changed = s.takeList(err)
	fine, failed := 0, []error{err}
	known := make(map[string]string, len(found))
	for _, f := range found {
		known[f.name] = f.trouble()
		if failed = append(failed, f.err); f.err == nil {
			fine++
		}
		if known[f.name] != s.known[f.name] {
			changed = true
			s.tell(f, s.known[f.name])
		}
	}
	if err == nil { // else nothing is known of any of them
		for name, trouble := range s.known {
			if _, there := known[name]; !there && trouble != "" {
				s.log.Info("redis server is not asked any more", "server", name)
			}
		}
		s.known = known
	}
	every := errors.Join(failed...)
	s.troubled.Store(every != nil)
	if fine > 0 {
		every = nil
	}
	s.latest.Store(&every)
	if fine > 0 && !s.counted.Swap(true) {
		s.log.Info("redis can count", "servers", fine)
	}
	return changed
}

// takeList tells when the list of servers is lost, as in a cluster of which nobody answers, and when it is back.
func (s *status) takeList(err error) (changed bool) {
	before := s.listing
	if s.listing = (finding{err: err}).trouble(); s.listing == before {
		return false
	}
	if err != nil {
		s.log.Warn("redis does not tell its servers", "error", err)
	} else {
		s.log.Info("redis tells its servers again")
	}
	return true
}

// tell logs that a server has left, or is back.
func (s *status) tell(f finding, before string) {
	now := f.trouble()
	switch {
	case f.told && (now == away || now == "" && before == away):
	case now == away:
		s.log.Warn("redis server does not answer", "server", f.name, "error", f.err)
	case now != "":
		s.log.Warn("redis server cannot count", "server", f.name, "error", f.err)
	case before == away:
		s.log.Info("redis server answers again", "server", f.name)
	default:
		s.log.Info("redis server can count again", "server", f.name)
	}
}
