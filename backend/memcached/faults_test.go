package memcached

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/memcachedtest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/descriptors"
)

// own and plain are the two kinds of keys: a value, counted by cas, and a number, counted by incr.
const own, plain = "key", "\x00domain_key_"

// tally is what the callers of a test know of their hits.
type tally struct{ answered, unknown, uncounted, late atomic.Int64 }

// hit asks about one hit with little time, and notes what came of it.
func (n *tally) hit(t *testing.T, s *Store, key string, timeout time.Duration, l descriptors.Limit) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	var out [1]backend.Decision
	if err := s.Decide(ctx, []backend.Check{hits(t, key, 1, l)}, out[:]); err != nil {
		t.Error(err)
		return
	}
	if ctx.Err() != nil {
		n.late.Add(1)
	}
	switch err := out[0].Err; backend.ReasonOf(err) {
	case 0:
		n.answered.Add(1)
	case backend.Down, backend.Busy:
		n.uncounted.Add(1)
	default:
		if n.unknown.Add(1); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v does not say that memcached is away", err)
		}
	}
}

// check compares what callers know with what is counted.
func (n *tally) check(t *testing.T, s *Store, key string, l descriptors.Limit) {
	t.Helper()
	counts, err := s.Inspect(t.Context(), []byte(key), []descriptors.Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	sure, unknown := uint64(n.answered.Load()), uint64(n.unknown.Load())
	if got := counts[0].Hits; got < sure || got > sure+unknown {
		t.Errorf("%q counts %d hits; %d were answered, and of %d more it is not known: no hit is counted twice, nor lost", key, got, sure, unknown)
	}
}

func untilState(t *testing.T, s *Store, want backend.ServerState) {
	t.Helper()
	changed := make(chan struct{}, 1)
	s.Notify(changed)
	for {
		known := s.Servers()
		if !slices.ContainsFunc(slices.Collect(maps.Values(known)), func(state backend.ServerState) bool { return state != want }) {
			return
		}
		select {
		case <-changed:
		case <-time.After(ample):
			t.Fatalf("known is %v, want %v, and no change is told", known, want)
		}
	}
}

// notYet is an error while something is to be waited for.
func notYet(missing bool) error {
	if missing {
		return errors.New("not yet")
	}
	return nil
}

func lots(t *testing.T) descriptors.Limit {
	t.Helper()
	return limitOf(t, 1_000_000, descriptors.Hour, descriptors.FixedWindow)
}

// Replies are lost in each way, of each command that counts.
func TestHitsAreCountedAtMostOnce(t *testing.T) {
	t.Parallel()
	for action, name := range map[redistest.Action]string{
		redistest.ResetAfter: "reset in place of the reply", redistest.CloseAfter: "closed in place of the reply",
		redistest.ResetBefore: "reset before the command arrives", redistest.SwallowReply: "the reply is dropped",
	} {
		for _, key := range []string{own, plain} {
			for _, command := range map[string][]string{own: {"CAS", "GETS"}, plain: {"INCR"}}[key] {
				t.Run(fmt.Sprint(name, ", ", command), func(t *testing.T) {
					t.Parallel()
					proxy := redistest.Proxy(t, memcachedtest.Start(t).Addr)
					patience := ample
					if action == redistest.SwallowReply {
						patience = time.Second // nothing else ends the wait
					}
					s, l := opened(t, Config{Servers: []string{proxy.Addr}, Timeout: patience}), lots(t)
					var n tally
					n.hit(t, s, key, ample, l) // the key is there
					stop := backendtest.KeepBusy(4, func(int) { n.hit(t, s, key, patience, l) })
					for range 2 {
						spring(t, proxy, command, action)
						time.Sleep(5 * time.Millisecond)
					}
					stop()
					untilState(t, s, backend.ServerUp)
					n.check(t, s, key, l)
				})
			}
		}
	}
}

// spring waits until a trap has acted. One whose connection was given up before is set again.
func spring(t *testing.T, p *redistest.FaultProxy, command string, action redistest.Action) {
	t.Helper()
	process.Eventually(t, "a trap acts on "+command, func() error {
		select {
		case <-p.Trap(command, action):
			return nil
		case <-time.After(2 * time.Second):
			return errors.New("nothing came through")
		}
	})
}

// A server is full: it throws out what counts, as its statistics tell. An operator resets these, and flushes.
func TestEvictionsAreCounted(t *testing.T) {
	t.Parallel()
	server, l := memcachedtest.Start(t, "-m", "8"), lots(t)
	s := opened(t, Config{Servers: []string{server.Addr}, statsInterval: 20 * time.Millisecond})
	if err := s.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	filler := strings.Repeat("x", 100<<10)
	for i := 0; s.Stats().Evictions == 0; i++ {
		for j := range 50 {
			server.Ask(fmt.Sprintf("set filler-%d 0 0 %d\r\n%s\r\n", i*50+j, len(filler), filler), 1)
		}
		var n tally
		for j := range 20 {
			n.hit(t, s, fmt.Sprint(own, j), ample, l)
		}
		if n.answered.Load() != 20 {
			t.Fatalf("of 20 checks %d were answered by a full server; want all", n.answered.Load())
		}
		if i > 100 {
			t.Fatal("500 MB made a server of 8 MB evict nothing that was seen")
		}
	}
	evictions := s.Stats().Evictions
	server.Ask("stats reset\r\n", 1)
	server.Ask("flush_all\r\n", 1)
	process.Eventually(t, "a flush counts as a restart", func() error { return notYet(s.Stats().Restarts == 0) })
	if now := s.Stats().Evictions; now < evictions {
		t.Errorf("%d evictions are counted after the server's statistics began anew, %d before", now, evictions)
	}
}

// What others have written under a name of weir's is an error of that key, and touches no other.
func TestForeignValueFailsOnlyItsKey(t *testing.T) {
	t.Parallel()
	server, l := memcachedtest.Start(t), lots(t)
	s := opened(t, Config{Servers: []string{server.Addr}})
	_, at := (*s.servers.Load()).locateWeir(nil, []byte("other"), "")
	torn := append(new(entry).append(nil), 1)
	for name, data := range map[string]string{"garbage": "hello", "torn": string(torn)} {
		server.Ask(fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", at.name, len(data), data), 1)
		checks, out := []backend.Check{hits(t, "other", 1, l), hits(t, own, 1, l)}, make([]backend.Decision, 2)
		if err := s.Decide(t.Context(), checks, out); err != nil {
			t.Fatal(err)
		}
		if backend.ReasonOf(out[0].Err) != backend.Refused || out[1].Err != nil {
			t.Errorf("%s: %v, and the key beside it %v; want it refused, and the other answered", name, out[0].Err, out[1].Err)
		}
	}
	if err := s.Reset(t.Context(), []byte("other")); err != nil {
		t.Fatal(err)
	}
	if !allowed(t, s, hits(t, "other", 1, l)) {
		t.Error("after a reset it is denied")
	}
}

// A server that wants a password, which weir has none for, answers and cannot count.
func TestServerThatWantsAPasswordIsUnhealthy(t *testing.T) {
	t.Parallel()
	passwords := filepath.Join(t.TempDir(), "passwords")
	if err := os.WriteFile(passwords, []byte("ann:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := memcachedtest.Start(t)
	s := opened(t, Config{Servers: []string{server.Addr}, statsInterval: 20 * time.Millisecond})
	untilState(t, s, backend.ServerUp)
	server.Kill()
	locked := memcachedtest.StartAt(t, server.Addr, "-Y", passwords)
	untilState(t, s, backend.ServerFailing)
	if d := ask1(t, s, hits(t, own, 1, lots(t))); backend.ReasonOf(d.Err) != backend.Refused || s.ProbeErr() == nil {
		t.Errorf("%+v, and the store says %v; want the check refused, and why", d, s.ProbeErr())
	}
	locked.Kill()
	untilState(t, s, backend.ServerAway)
	server.Restart()
	untilState(t, s, backend.ServerUp)
}

// Others change a key each time that it is to be changed here: it is given up.
func TestRetriesOfALostRaceAreBounded(t *testing.T) {
	t.Parallel()
	server, l := memcachedtest.Start(t), lots(t)
	var at location
	s := opened(t, Config{Servers: []string{server.Addr}, now: func() time.Time { // which is asked for between read and write
		value := new(entry).append(nil)
		server.Ask(fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", at.name, len(value), value), 1)
		return time.Now()
	}})
	_, at = (*s.servers.Load()).locateWeir(nil, []byte(own), "")
	got := ask1(t, s, hits(t, own, 1, l))
	if backend.ReasonOf(got.Err) != backend.Late || !errors.Is(got.Err, ErrUnavailable) || s.Stats().LostRaces != maxTries {
		t.Errorf("%+v after %d lost races; want an error with the reason late after %d", got, s.Stats().LostRaces, maxTries)
	}
	if got := allowed(t, opened(t, Config{Servers: []string{server.Addr}}), hits(t, own, 1, l)); !got {
		t.Error("it was counted all the same")
	}
}
