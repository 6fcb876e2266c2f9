package redishistory

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// writer counts batches of some series of a partition.
type writer struct {
	*Store
	p   history.Partition
	ids []history.ID
	seq uint64
}

func newWriter(s *Store, series int) *writer {
	p, ids := historytest.Partners(series)
	return &writer{Store: s, p: p, ids: ids}
}

// next returns the next batch: as many hits of each series as its number says, each series a minute before the other.
func (w *writer) next(minute int64) history.Batch {
	w.seq++
	b := history.Batch{Writer: "ann", Seq: w.seq, After: w.seq - 1}
	for i, id := range w.ids {
		b.Increments = append(b.Increments, history.Increment{ID: id, Minute: minute - int64(i), Hits: w.seq})
	}
	return b
}

// count counts the next batch in a minute before the start.
func (w *writer) count(t *testing.T, before int64) {
	t.Helper()
	apply(t, w.Store, w.p, w.next(start.Unix()/60-before))
}

func impatient(c *Config) { c.Redis.Timeout = 300 * time.Millisecond }

// TestServersThatMayLoseDataAreReported: a server that may evict is reported, and one that was restarted is asked to
// write its append-only file anew, see needsRewrite.
func TestServersThatMayLoseDataAreReported(t *testing.T) {
	t.Parallel()
	var l process.Output
	server := redistest.Single(t, redistest.WithConfig("appendonly yes", "maxmemory-policy allkeys-lru"))
	opened(t, singleOf(server), nil, func(c *Config) { c.Redis.Log = slog.New(slog.NewTextHandler(&l, nil)) })
	for _, said := range []string{"set maxmemory-policy to noeviction", "sent BGREWRITEAOF"} {
		process.Eventually(t, "the log says so", func() error { return l.Contains(said) })
	}
	process.Eventually(t, "the server has written its file", func() error {
		info, err := server.Info(t.Context(), "persistence")
		if err == nil && info["aof_last_rewrite_time_sec"] == "-1" {
			err = errors.New("it has not")
		}
		return err
	})
}

func TestOtherFormatsAreLeftUntouched(t *testing.T) {
	f := shared(t, topology.Single)
	client := f.client()
	s := opened(t, f, fixed(start), nil)
	a := newWriter(s, 2)
	a.count(t, 0)
	client.Set(t.Context(), formatKey(a.p), "2", 0)
	before := dump(t, client)
	_, applied := s.Apply(t.Context(), a.p, a.next(start.Unix()/60))
	_, downsampled := s.Downsample(t.Context(), start.AddDate(1, 0, 0))
	asked := s.Query(t.Context(), historytest.Everything(), func(history.Series) error { return nil })
	for _, err := range []error{applied, downsampled, asked} {
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "another format: 2, and this weir knows 1") {
			t.Errorf("the error is %v, want one that is ErrFormat and names both", err)
		}
	}
	for key, content := range before {
		if client.Dump(t.Context(), key).Val() != content {
			t.Errorf("%s of another format has been changed", key)
		}
	}
}

// Batches are refused then, but moves are what makes room.
func TestFullServerStillAllowsMoves(t *testing.T) {
	f := shared(t, topology.Single)
	client := f.client()
	clock := start
	s := opened(t, f, func() time.Time { return clock }, nil)
	a := newWriter(s, 20)
	for n := range int64(60) {
		a.count(t, n)
	}
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	defer client.ConfigSet(t.Context(), "maxmemory", "0")
	if r, err := s.Apply(t.Context(), a.p, a.next(start.Unix()/60)); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("a full server answers a batch with %+v, %v, want its own error", r, err)
	}
	clock = start.Add(60 * 24 * time.Hour)
	did, err := s.Downsample(t.Context(), clock)
	if err != nil && !strings.Contains(err.Error(), "OOM") || did.Chunks == 0 {
		t.Errorf("on a full server the job did %+v, %v, want it to move all that is old", did, err)
	}
	client.ConfigSet(t.Context(), "maxmemory", "0")
	for _, one := range historytest.All(t, s) {
		if one.Lifetime != 60*61/2 || !one.Exact() {
			t.Errorf("%+v is not exact, or has not the hits of 60 batches", one)
		}
	}
}

// TestSettleWaitsForReplicas: a writer may end then, and any failover finds its batches.
func TestSettleWaitsForReplicas(t *testing.T) {
	f := shared(t, topology.Sentinel)
	a := newWriter(opened(t, f, fixed(start), nil), 3)
	primary, replica := f.Sentinel.Await(t), f.Sentinel.Nodes[0]
	if replica == primary {
		replica = f.Sentinel.Nodes[1]
	}
	has := func() string { return replica.Client().HGet(t.Context(), writersKey(a.p), "ann").Val() }
	for n, hangs := range []bool{false, true, true} {
		if hangs {
			replica.Freeze()
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
		go func() { settled <- a.WaitReplicated(ctx) }()
		if hangs {
			var err error
			early := false
			select {
			case err = <-settled:
				early = true
			case <-time.After(10 * replicaPollInterval): // the longer, the surer is a fault seen
			}
			if replica.Thaw(); early {
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

func TestSettleWaitsForAnUnavailableServer(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	s := opened(t, singleOf(server), fixed(start), impatient)
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.WaitReplicated(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a server that is away: %v, want it to wait, as nobody knows what the server comes back with", err)
	}
}

func TestReplicaLagIsReported(t *testing.T) {
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
		err := checkReplicas(parseInfo(c.info), "s", map[string]uint64{"s x": 700})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.promise, err, c.want)
		}
	}
}

// A move writes coarse buckets that it read before: what an import adds to them meanwhile must make it read again.
func TestMoveKeepsHitsImportedMeanwhile(t *testing.T) {
	f := shared(t, topology.Single)
	p, ids := historytest.Partners(1)
	minute := start.Unix()/300*5 - 2*1440 // which is due
	bucket := func(writer string) history.Batch {
		return history.Batch{Writer: writer, Seq: 1, Increments: []history.Increment{{ID: ids[0], Minute: minute, Hits: 5, Tier: history.FiveMinutes, Peak: 5}}}
	}
	var s *Store
	meanwhile := 0
	s = opened(t, f, fixed(start), func(c *Config) {
		c.Step = func(name string) {
			if meanwhile == 0 && name == "downsample 1m" {
				meanwhile++
				apply(t, s, p, bucket("import"))
			}
		}
	})
	apply(t, s, p, bucket("another import"))
	apply(t, s, p, history.Batch{Writer: "serve", Seq: 1, Increments: []history.Increment{{ID: ids[0], Minute: minute + 1, Hits: 3}}})
	if _, err := s.Downsample(t.Context(), start); err != nil || meanwhile != 1 {
		t.Fatalf("the job ends with %v, and %d imports came during a move, want 1", err, meanwhile)
	}
	if one := historytest.All(t, s)[ids[0]]; !one.Exact() || one.Lifetime != 13 || len(one.Points) != 1 || one.Points[0].Sum != 13 {
		t.Errorf("after a move and two imports the series is %+v, want its 13 hits in one bucket", one)
	}
}
