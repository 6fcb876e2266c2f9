package redis

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// Real servers refuse here, where the tests beside these use stubs: they show that a refusal comes when and as a stub
// has it. TRYAGAIN is left out, as it takes several keys in one command of a cluster, which weir never sends.

// refused is how often a server has answered with an error of this code since it started.
func refused(t *testing.T, code string, server *redistest.Server) int {
	t.Helper()
	errors, err := server.Info(t.Context(), "errorstats")
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(strings.TrimPrefix(errors["errorstat_"+code], "count=")) // none, if it is not there
	return n
}

// strain lets clients call a store while f runs: patient ones, whose hits must be counted exactly as often as they were
// answered, as each refusal proves that a check did not run; and hasty ones, who must get away in time, and whose hits
// may be counted although they left. When f is over, calls must be answered again.
func strain(t *testing.T, s *Store, counted func(key string) int64, f func()) {
	t.Helper()
	type kind struct {
		tally
		key     string
		timeout time.Duration
	}
	patient := &kind{key: "key/patient", timeout: ample}
	hasty := &kind{key: "key/hasty", timeout: 50 * time.Millisecond}
	kinds := []*kind{patient, hasty}
	stop := sync.OnceFunc(keepBusy(8, func(client int) {
		k := kinds[client%2]
		k.hit(t, s, k.timeout, k.key)
	}))
	defer stop() // whatever becomes of f
	f()
	stop()
	for _, k := range kinds {
		before := k.answered.Load()
		wait(t, "calls are answered again", func() bool {
			k.hit(t, s, k.timeout, k.key)
			return k.answered.Load() > before
		})
		got, least := counted(k.key), k.answered.Load()
		most := least
		if k == hasty {
			most += k.unknown.Load()
		}
		if got < least || got > most {
			t.Errorf("%s: %d hits are counted, want from %d to %d: refusals are no hits, answers are", k.key, got, least, most)
		}
	}
	if s.Stats().Resent == 0 && patient.away.Load() == 0 {
		t.Error("no check was sent again, and nobody was told that the server is away: no refusal was met")
	}
}

func TestAServerThatLoadsIsAskedUntilItHasLoaded(t *testing.T) {
	t.Parallel()
	// A key takes it 50 ms, until it is told to go on, and it hears of clients after each.
	server := redistest.Single(t, redistest.WithConfig("key-load-delay 50000", "loading-process-events-interval-bytes 1024",
		"rdbcompression no"))
	ctx := context.Background()
	fill := `for i = 1, 1000 do redis.call('SET', 'other' .. i, string.rep('x', 2000)) end`
	if err := server.Client().Eval(ctx, fill, nil).Err(); err != nil && err != goredis.Nil {
		t.Fatal(err)
	}
	if err := server.Client().Save(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	s := onServer(t, server.Addr, ample)
	server.Kill()
	on := func(key string) int64 { return counted(t, server, key) }
	strain(t, s, on, func() {
		loaded := make(chan struct{})
		go func() {
			defer close(loaded)
			server.Restart(t)
		}()
		wait(t, "checks come while the server is loading", func() bool {
			info, err := server.Info(ctx, "errorstats") // it is away at first
			return err == nil && info["errorstat_LOADING"] != "" && s.Stats().Servers[0].Away
		})
		if err := server.Client().ConfigSet(ctx, "key-load-delay", "0").Err(); err != nil {
			t.Error(err)
		}
		<-loaded
	})
}

func TestAReplicaWithoutItsPrimaryIsAskedUntilItIsOne(t *testing.T) {
	t.Parallel()
	servers := redistest.Ring(t, 2, redistest.WithConfig("replica-serve-stale-data no"))
	replica, primary := servers[0], servers[1]
	ctx := context.Background()
	host, port, _ := strings.Cut(primary.Addr, ":")
	if err := replica.Client().ReplicaOf(ctx, host, port).Err(); err != nil {
		t.Fatal(err)
	}
	primary.Kill()
	s := onServer(t, replica.Addr, ample)
	on := func(key string) int64 { return counted(t, replica, key) }
	strain(t, s, on, func() {
		wait(t, "the replica refuses to answer", func() bool { return refused(t, "MASTERDOWN", replica) > 10 })
		if err := replica.Client().ReplicaOf(ctx, "no", "one").Err(); err != nil {
			t.Error(err)
		}
	})
}

// With a primary and its replica gone, the cluster refuses keys of the others' slots, too.
func TestAClusterThatLostSlotsIsAskedUntilItHasThemAgain(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t)
	s := storeAt(t, topology.Config{Type: topology.Cluster, URL: set.Addrs()[0], Timeout: ample})
	kept := set.NodeOf(t, plainKey("key"))
	lost := set.Primaries(t)[0]
	if lost == kept {
		lost = set.Primaries(t)[1]
	}
	on := func(key string) int64 { return counted(t, kept, key) }
	strain(t, s, on, func() {
		set.Replica(t, lost).Kill()
		lost.Kill()
		wait(t, "the cluster refuses", func() bool { return refused(t, "CLUSTERDOWN", kept) > 10 })
		lost.Restart(t)
		wait(t, "the cluster is well again", func() bool {
			info, err := kept.Client().ClusterInfo(context.Background()).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok")
		})
	})
}
