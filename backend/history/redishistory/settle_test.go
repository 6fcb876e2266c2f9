package redishistory

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// TestSettledMeansThatTheReplicasHaveIt: a writer may end then, and any failover finds its batches.
func TestSettledMeansThatTheReplicasHaveIt(t *testing.T) {
	f := shared(t, topology.Sentinel)
	a := newWriter(opened(t, f, fixed(start), nil), 3)
	primary, replica := f.Sentinel.Await(t), f.Sentinel.Nodes[0]
	if replica == primary {
		replica = f.Sentinel.Nodes[1]
	}
	has := func() string { return replica.Client().HGet(t.Context(), writersKey(a.p), "ann").Val() }
	for n, hangs := range []bool{false, true, true} {
		if hangs {
			replica.Stop()
		}
		a.count(t, 0)
		if n == 2 { // the primary then knows of no replica
			if err := primary.Client().Do(t.Context(), "client", "kill", "type", "replica").Err(); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), process.Hang)
		defer cancel()
		settled := make(chan error, 1)
		go func() { settled <- a.Settle(ctx) }()
		if hangs {
			var err error
			early := false
			select {
			case err = <-settled:
				early = true
			case <-time.After(10 * settlePause): // the longer, the surer is a fault seen
			}
			if replica.Cont(); early {
				t.Fatalf("with a replica that hangs it has settled, %v: want it to wait", err)
			}
		}
		if err := <-settled; err != nil {
			t.Fatalf("with a replica that follows: %v", err)
		}
		if got := has(); !strings.HasPrefix(got, string(rune('1'+n))+" ") {
			t.Errorf("settled, and the replica has the position %q, want batch %d", got, n+1)
		}
	}
}

func TestAServerThatIsAwayIsNotSettled(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	s := opened(t, singleOf(server), fixed(start), impatient)
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Settle(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a server that is away: %v, want it to wait, as nobody knows what the server comes back with", err)
	}
}

func TestWhatIsMissingAtAReplicaIsTold(t *testing.T) {
	const primary = "role:master\r\nmaster_repl_offset:900\r\nmaster_replid:x\r\n"
	for _, c := range []struct{ promise, info, want string }{
		{"never a replica", primary + "repl_backlog_active:0\r\n", ""},
		{"one that has all", primary + "slave0:ip=h,port=1,state=online,offset=700,lag=0\r\n", ""},
		{"one that lacks something", primary + "slave0:ip=h,port=1,state=online,offset=699,lag=0\r\n",
			"s has a replica at offset 699 of 700"},
		{"one of two lacks something", primary + "slave0:ip=h,port=1,state=online,offset=700,lag=0\r\n" +
			"slave1:ip=h,port=2,state=online,offset=1,lag=0\r\n", "at offset 1 of 700"},
		{"one that does not follow yet", primary + "repl_backlog_active:1\r\nslave0:ip=h,port=1,state=wait_bgsave,offset=0,lag=0\r\n",
			"s has lost its replicas"},
		{"one that has gone", primary + "repl_backlog_active:1\r\n", "s has lost its replicas"},
		{"a replica that is asked", "role:slave\r\nmaster_repl_offset:900\r\n", "s is no primary"},
		{"nothing", "", "s is no primary"},
	} {
		err := behind(parseInfo(c.info), "s", map[string]uint64{"s x": 700})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.promise, err, c.want)
		}
	}
}

func TestAWriterWasHeardOfWhenItsPositionSaysSoWhateverWasRefused(t *testing.T) {
	for position, want := range map[string]int64{
		"12 1790000000": 1790000000, "12 42 1790000000": 1790000000, "12 99999999999999999999 1790000000": 1790000000, "12": 0, "": 0, "12 x": 0,
	} {
		if at, ok := heard(position); ok != (want > 0) || ok && at != want {
			t.Errorf("the writer at %q was heard of at %d (%v), want %d: one that lives must not be forgotten", position, at, ok, want)
		}
	}
}
