package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/script"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// What the pipeline keeps to: batches that may be out to a server, and how long after a PING the next one follows.
const maxOut, pingPause = 16, 100 * time.Millisecond

// hurry is what callers have whom a server that is away must not hold: Envoy's usual 20 ms.
const hurry = 20 * time.Millisecond

// Once a few callers have found out, nobody waits, however much time it has, and nothing is sent until the server is
// back.
func TestNobodyWaitsForAnUnavailableServer(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"killed", "frozen", "black hole"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t)
			proxy := redistest.Proxy(t, server.Addr)
			addr, begin, end := server.Addr, server.Freeze, server.Thaw
			switch name {
			case "killed":
				begin, end = server.Kill, func() { server.Restart(t) }
			case "black hole":
				addr, end = proxy.Addr, proxy.Heal
				begin = func() { proxy.Drop(redistest.Requests); proxy.Drop(redistest.Replies) }
			}
			s := storeOn(t, connect(t, topology.Config{URL: addr, Timeout: topology.DefaultTimeout}))
			process.Eventually(t, "it counts", func() error { return decide(s, hurry, "key") })
			begin()
			before, dials, known := spared(t, s, proxy)
			for range 30 { // callers come meanwhile
				_ = decide(s, ample, "key")
				time.Sleep(pingPause / 10)
			}
			if n := s.Stats().Batches - before.Batches; n > 0 {
				t.Errorf("%d batches were sent to a server that is away; want none: only PING finds it", n)
			}
			// A dial of before may be counted late.
			most := maxOut + 2 + int(time.Since(known)/pingPause)
			if dials = proxy.Counts().Connections - dials; dials > most {
				t.Errorf("%d dials while it was away, want %d at most", dials, most)
			}
			end()
			process.Eventually(t, "calls are answered again", func() error { return decide(s, hurry, "key") })
			if s.Stats().Losses == 0 {
				t.Error("no loss is counted: nobody knows what the server still holds")
			}
		})
	}
}

// spared waits until the server is known to be away and nobody waits for it, and returns what was sent before that. A
// PONG that was on its way when the server left may close the breaker once more; a breaker that spares nobody never
// gets there.
func spared(t *testing.T, s *Store, proxy *redistest.FaultProxy) (before pipeline.Stats, dials int, known time.Time) {
	t.Helper()
	for try := 1; ; try++ {
		redistest.Until(t, "callers are told at once that the server is away", func() bool {
			return backend.ReasonOf(decide(s, hurry, "key")) == backend.Down
		})
		known = time.Now()
		redistest.Until(t, "batches that were out come back", func() bool { return s.Stats().Servers[0].Out == 0 })
		before, dials = s.Stats(), proxy.Counts().Connections
		told, err := 0, error(nil)
		for ; told < 200; told++ {
			if err = decide(s, ample, "key"); backend.ReasonOf(err) != backend.Down {
				break
			}
		}
		sent := s.Stats().Batches - before.Batches // one that is tried and lost gets the same answer, later
		switch {
		case told == 200 && sent == 0:
			return before, dials, known
		case try == 3:
			t.Fatalf("a patient caller got %v, and %d batches were sent, in the third try; want callers to be told at once "+
				"that the server is away", err, sent)
		}
		t.Logf("a patient caller got %v after %d that were told at once, %d batches were sent: again", err, told, sent)
	}
}

// TestLostShardFailsOnlyItsKeys stops one of three nodes, and asks all of them in one call.
func TestLostShardFailsOnlyItsKeys(t *testing.T) {
	t.Parallel()
	nodes := redistest.Ring(t, 3)
	url := nodes[0].Addr + "," + nodes[1].Addr + "," + nodes[2].Addr
	s, keys := opened(t, topology.Config{Type: topology.Ring, URL: url, NodeLoss: topology.Pin}, nil), make([]string, 32)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	checks, out := redistest.Hits(keys...), make([]backend.Decision, len(keys))
	if err := backend.DecideAll(t.Context(), s, checks, out); err != nil {
		t.Fatal(err)
	}
	away := make([]bool, len(checks))
	for i := range checks {
		names := s.servers.Nodes()
		away[i] = names[topology.Rendezvous(names, script.AppendKey(nil, checks[i].Key))] == nodes[1].Addr
	}
	nodes[1].Freeze()
	defer nodes[1].Thaw()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // the others have all of it
	defer cancel()
	if err := s.Decide(ctx, checks, out); err != nil {
		t.Fatalf("Decide with a node that hangs: %v; want the decisions of the others", err)
	}
	answered := 0
	for i := range out {
		switch {
		case away[i] && !errors.Is(out[i].Err, ErrUnavailable):
			t.Errorf("%s, whose node hangs, got %+v; want ErrUnavailable", keys[i], out[i])
		case !away[i] && (out[i].Err != nil || out[i].Before != 1):
			t.Errorf("%s got %+v; want its node's answer, whatever another node does", keys[i], out[i])
		case !away[i]:
			answered++
		}
	}
	if answered == 0 || answered == len(out) {
		t.Errorf("%d of %d keys are on nodes that answer; want some on each", answered, len(out))
	}
}

// BenchmarkFrozenRedis freezes Redis for five seconds under 40 callers of 100 calls a second with 20 ms each, and tells
// how many come back late: of all, and of those that were sent later than 100 ms after the freeze.
func BenchmarkFrozenRedis(b *testing.B) {
	const callers, freeze = 40, 5 * time.Second
	server := redistest.Single(b)
	s := opened(b, topology.Config{URL: server.Addr}, nil)
	for b.Loop() {
		var calls, late, lateLater atomic.Int64
		var frozen atomic.Pointer[time.Time]
		var running sync.WaitGroup
		ctx, stop := context.WithCancel(b.Context())
		for i := range callers {
			running.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond / callers)
				checks, out := redistest.Hits(fmt.Sprint(i)), make([]backend.Decision, 1)
				for next := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil; <-next.C {
					sent, since := time.Now(), frozen.Load()
					call, cancel := context.WithDeadline(ctx, sent.Add(hurry))
					_ = s.Decide(call, checks, out)
					cancel()
					if since == nil {
						continue
					}
					if calls.Add(1); time.Since(sent) > hurry {
						late.Add(1)
						if sent.Sub(*since) > 100*time.Millisecond {
							lateLater.Add(1)
						}
					}
				}
			})
		}
		time.Sleep(time.Second)
		server.Freeze()
		now := time.Now()
		frozen.Store(&now)
		time.Sleep(freeze)
		stop()
		running.Wait()
		server.Thaw()
		process.Eventually(b, "it counts again", func() error { return decide(s, hurry, "key") })
		b.ReportMetric(float64(calls.Load()), "calls")
		b.ReportMetric(100*float64(late.Load())/float64(calls.Load()), "%late")
		b.ReportMetric(float64(lateLater.Load()), "late-after-100ms")
	}
}
