package counter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter/script"
)

// onServer is a store of the plain script at an address.
func onServer(t *testing.T, addr string, timeout time.Duration) *Store {
	t.Helper()
	return testStore(t, fixed{testClient(t, addr, timeout)}, timeout)
}

// tally is what the callers of a test know of their hits.
type tally struct {
	answered, unknown atomic.Int64
	away              atomic.Int64 // that were told that they are not counted
	slowest           atomic.Int64 // ns
}

// hit makes a call of one hit and notes what came of it.
func (n *tally) hit(t *testing.T, s *Store, timeout time.Duration, key string) {
	t.Helper()
	took, err := decide(s, timeout, key)
	n.note(t, err, took)
}

// note fails the test for an error that does not say that Redis is away.
func (n *tally) note(t *testing.T, err error, took time.Duration) {
	t.Helper()
	for slowest := n.slowest.Load(); int64(took) > slowest; slowest = n.slowest.Load() {
		n.slowest.CompareAndSwap(slowest, int64(took))
	}
	switch {
	case err == nil:
		n.answered.Add(1)
	case uncounted(err):
		n.away.Add(1)
		time.Sleep(time.Millisecond) // or nobody else has the machine
	case errors.Is(err, ErrUnavailable):
		n.unknown.Add(1)
	default:
		t.Error(err)
	}
}

// uncounted reports whether an error is proof that a check was not counted.
func uncounted(err error) bool {
	switch backend.ReasonOf(err) {
	case backend.Down, backend.Busy:
		return true
	case backend.Refused:
		return regexp.MustCompile("READONLY|LOADING|MASTERDOWN").MatchString(err.Error())
	}
	return false
}

// counted is what a server holds for keys of the plain script, nothing where no hit reached it.
func counted(t *testing.T, server *redistest.Server, keys ...string) (sum int64) {
	t.Helper()
	for _, key := range keys {
		n, err := server.Client().Get(context.Background(), plainKey(key)).Int64()
		if err != nil && !errors.Is(err, goredis.Nil) {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// keepBusy lets clients call f until stop is called, which waits for them.
func keepBusy(clients int, f func(client int)) (stop func()) {
	var running sync.WaitGroup
	var stopped atomic.Bool
	for i := range clients {
		running.Go(func() {
			for !stopped.Load() {
				f(i)
			}
		})
	}
	return func() {
		stopped.Store(true)
		running.Wait()
	}
}

func TestConcurrentRequestsShareRoundTrips(t *testing.T) {
	server := redistest.Single(t)
	s := onServer(t, server.Addr, ample)
	const clients, rounds = 64, 25
	at := func(name string) int64 { return server.Stat(t, name) }
	commands, reads := at("total_commands_processed"), at("total_reads_processed")
	for range rounds {
		var asking sync.WaitGroup
		for i := range clients {
			asking.Go(func() {
				if _, err := decide(s, ample, fmt.Sprint("key ", i)); err != nil {
					t.Error(err)
				}
			})
		}
		asking.Wait()
	}
	commands, reads = at("total_commands_processed")-commands, at("total_reads_processed")-reads
	stats := s.Stats()
	t.Logf("%d requests of %d clients: %d batches, and in Redis %d reads", clients*rounds, clients, stats.Batches, reads)
	if stats.Checks != clients*rounds {
		t.Errorf("the statistics tell of %d checks, want %d", stats.Checks, clients*rounds)
	}
	if most := int64(clients * rounds / 4); reads > most {
		t.Errorf("%d requests took %d reads of the server, want %d at most: each is a round trip",
			clients*rounds, reads, most)
	}
	// A script's own INCRBY is a command as well.
	if most := int64(clients*rounds*5/4) + 50; commands > most {
		t.Errorf("%d requests took %d commands, want %d at most", clients*rounds, commands, most)
	}
}

func TestAHitIsCountedAtMostOnce(t *testing.T) {
	open := func(t *testing.T, addr string, patience time.Duration) *Store {
		s := onServer(t, addr, patience)
		var before tally
		before.hit(t, s, patience, "before") // so that the script is known
		return s
	}
	whileCommandsAreLost(t, "EVALSHA", "key", open, func(t *testing.T, server *redistest.Server, n *tally, runs bool) {
		want := n.answered.Load()
		if runs {
			want += n.unknown.Load()
		}
		if got := counted(t, server, "key"); got != want {
			t.Errorf("%d hits are counted; %d were answered and %d lost, so want %d exactly",
				got, n.answered.Load(), n.unknown.Load(), want)
		}
	})
}

// whileCommandsAreLost has a key hit while commands that count it, or their replies, are lost in each way, and what is
// counted then judged, given whether Redis runs what is lost.
func whileCommandsAreLost(t *testing.T, command, key string, open func(t *testing.T, addr string, patience time.Duration) *Store,
	judge func(t *testing.T, server *redistest.Server, n *tally, runs bool)) {
	for action, tc := range map[redistest.Action]struct {
		name string
		runs bool // Redis executes what is lost
	}{
		redistest.SwallowReply: {"the reply is dropped", true},
		redistest.ResetAfter:   {"the connection is reset in place of the reply", true},
		redistest.CloseAfter:   {"the connection is closed in place of the reply", true},
		redistest.ResetBefore:  {"the connection is reset before the command arrives", false},
		redistest.CloseBefore:  {"the connection is closed before the command arrives", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t)
			proxy := redistest.Proxy(t, server.Addr)
			patience := ample
			if action == redistest.SwallowReply {
				patience = 3 * time.Second // nothing else ends the wait
			}
			s := open(t, proxy.Addr, patience)
			var n tally
			stop := keepBusy(8, func(int) { n.hit(t, s, patience, key) })
			for range 5 {
				select {
				case <-proxy.Trap(command, action):
				case <-time.After(ample):
					t.Error("no command came through for a minute")
				}
				time.Sleep(5 * time.Millisecond)
			}
			stop()
			if n.unknown.Load() == 0 {
				t.Error("every call was answered; want some that were not, as their commands were lost")
			}
			judge(t, server, &n, tc.runs)
		})
	}
}

func TestALostScriptIsLoadedAgain(t *testing.T) {
	server := redistest.Single(t)
	s := onServer(t, server.Addr, ample)
	var n tally
	stop := keepBusy(8, func(int) { n.hit(t, s, ample, "key") })
	for i := 0; i < 20 || s.Stats().Resent == 0 && i < 10_000; i++ {
		if err := server.Client().ScriptFlush(context.Background()).Err(); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	stop()
	if failed := n.unknown.Load() + n.away.Load(); failed > 0 {
		t.Errorf("%d of %d calls failed; a server that forgot its scripts has to be given them again",
			failed, failed+n.answered.Load())
	}
	if got := counted(t, server, "key"); got != n.answered.Load() {
		t.Errorf("%d hits are counted, %d were answered", got, n.answered.Load())
	}
	if s.Stats().Resent == 0 {
		t.Error("no check was sent again: the flushes did not meet any")
	}
}

func TestCallersLeaveInTimeWhenRedisIsSlow(t *testing.T) {
	t.Parallel()
	const deadline = time.Second // leaves 300 ms for a busy machine, and half of all calls may be later still
	server := redistest.Single(t)
	proxy := redistest.Proxy(t, server.Addr)
	proxy.Delay(redistest.Replies, 600*time.Millisecond)
	s := onServer(t, proxy.Addr, ample)
	var n tally
	burst := func(d time.Duration) {
		var calls sync.WaitGroup
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(40 * time.Millisecond) {
			calls.Go(func() { n.hit(t, s, deadline, "key") })
		}
		calls.Wait()
	}
	burst(2 * time.Second) // connections are made, in two round trips: longer than any of these callers can wait
	coldAnswers, coldFailures := n.answered.Load(), n.unknown.Load()
	burst(3 * time.Second)
	inTime(t, time.Duration(n.slowest.Load()), deadline)
	answers, failures := n.answered.Load()-coldAnswers, n.unknown.Load()-coldFailures
	t.Logf("without connections %d of %d were answered, with them %d of %d",
		coldAnswers, coldAnswers+coldFailures, answers, answers+failures)
	if answers < failures {
		t.Error("most calls got no answer, although Redis answers within their deadline")
	}
	got := counted(t, server, "key") - n.answered.Load()
	if got < 0 || got > n.unknown.Load() {
		t.Errorf("%d hits more are counted than were answered; want between 0 and %d, the calls without an answer",
			got, n.unknown.Load())
	}
}

// A caller may use its checks and decisions again at once, whatever still goes on behind its back.
func TestAFrozenRedisHoldsNobody(t *testing.T) {
	const deadline = 50 * time.Millisecond
	server := redistest.Single(t)
	s := onServer(t, server.Addr, ample)
	var n tally
	var mixed atomic.Int64
	stop := keepBusy(16, func(client int) {
		checks := []backend.Check{hit(fmt.Sprint("key ", client))}
		checks[0].Hits = uint64(1) << client // answers to another's question do not fit
		out := make([]backend.Decision, 1)
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		start := time.Now()
		err := backend.DecideAll(ctx, s, checks, out)
		n.note(t, err, time.Since(start))
		if err == nil && out[0].Before%checks[0].Hits != 0 {
			mixed.Add(1)
		}
		checks[0].Key[0], out[0].Before = 'x', 1
	})
	wait(t, "there are answers before the server is frozen", func() bool { return n.answered.Load() > 0 })
	server.Stop()
	time.Sleep(1200 * time.Millisecond)
	wait(t, "callers leave a frozen server", func() bool { return n.unknown.Load() > 0 })
	server.Cont()
	before := n.answered.Load()
	wait(t, "there are answers again after the thaw", func() bool { return n.answered.Load() > before+100 })
	stop()
	inTime(t, time.Duration(n.slowest.Load()), deadline)
	if mixed.Load() > 0 {
		t.Errorf("%d answers belong to other questions", mixed.Load())
	}
	t.Logf("%d calls answered, %d not", n.answered.Load(), n.unknown.Load())
}

// A server that has become a replica refuses inside the script; when its address leads to a primary again, it counts.
func TestAReplicaIsAskedUntilItIsAPrimary(t *testing.T) {
	servers := redistest.Ring(t, 2)
	s := onServer(t, servers[0].Addr, ample)
	var n tally
	n.hit(t, s, time.Second, "key")
	host, port, _ := strings.Cut(servers[1].Addr, ":")
	if err := servers[0].Client().ReplicaOf(context.Background(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	if took, err := decide(s, 50*time.Millisecond, "key"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a replica answered %v after %v; want ErrUnavailable", err, took)
	}
	time.AfterFunc(100*time.Millisecond, func() {
		if err := servers[0].Client().ReplicaOf(context.Background(), "no", "one").Err(); err != nil {
			t.Error(err)
		}
	})
	wait(t, "there is an answer, as it is a primary again", func() bool {
		_, err := decide(s, ample, "another")
		if err != nil && !uncounted(err) {
			t.Fatalf("%v; want an answer, or to be told at once that there is none", err)
		}
		return err == nil
	})
	if got := counted(t, servers[0], "another"); got != 1 {
		t.Errorf("the hit counts %d times", got)
	}
}

func TestCloseLeavesNoGoroutines(t *testing.T) {
	server := redistest.Single(t)
	before := runtime.NumGoroutine()
	client := testClient(t, server.Addr, time.Second)
	s := newStore(redis.Over(fixed{client}, time.Second), nil, plainScript, plain)
	stop := keepBusy(64, func(client int) { _, _ = decide(s, time.Second, fmt.Sprint("key ", client)) })
	time.Sleep(100 * time.Millisecond)
	server.Stop()
	time.Sleep(50 * time.Millisecond)
	closing := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	inTime(t, time.Since(closing), time.Second)
	stop()
	_ = client.Close()
	server.Cont()
	wait(t, "all goroutines are gone", func() bool { return runtime.NumGoroutine() <= before })
}

// A check that meets a server before its probe tells what is wrong with it, too: the server would hang up on a script
// that comes from somebody who has not logged in, and say nothing.
func TestACheckWithoutCredentialsIsToldSo(t *testing.T) {
	for _, release := range append(redistest.Releases(t), "") {
		t.Run(cmp.Or(release, "on PATH"), func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t, redistest.WithPassword(secret), redistest.WithRelease(release))
			servers := connect(t, redis.Config{URL: server.Addr, Timeout: ample})
			s := newStore(servers, nil, newScript(), language{script.AppendKey, script.AppendArg, script.Decode})
			defer s.Close()
			took, err := decide(s, ample, "key")
			if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "NOAUTH") {
				t.Errorf("after %v: %v; want the server's NOAUTH", took, err)
			}
			if n := s.Stats().Resent; n > 0 {
				t.Errorf("the check was sent again %d times; credentials do not come by waiting", n)
			}
		})
	}
}
