package historyfire

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// scene is a fire on servers: what befalls them in the midst of a round, and how the writers end.
type scene struct {
	name  string
	start func(t *testing.T) (f *fire, disturb func(), end func(drain func()))
}

var scenes = []scene{
	{"a server whose replies are lost and whose file is torn", tornServer},
	{"a cluster whose slots move", movingSlots},
	{"a primary whose replica lacks the latest", laggingReplica},
	{"a ring whose nodes are killed", killedNodes},
}

// TestHistoryCountsEachHitOnceDuringFaults: what was counted is in its series, once, and what was acknowledged is
// counted.
func TestHistoryCountsEachHitOnceDuringFaults(t *testing.T) {
	under, deaths := scenes, *kills
	if testing.Short() {
		under, deaths = scenes[:2], *kills/4
	}
	for _, s := range under {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			f, disturb, end := s.start(t)
			const most = 30 // a round: so it is over long before a store forgets a writer
			left := deaths / len(under)
			for left > 0 && !t.Failed() {
				f.burn(min(left, most), disturb, end)
				left -= most
			}
			f.finish()
		})
	}
}

func drainOnly(drain func()) { drain() }

// tornServer kills a server and cuts its append-only file at a random byte, as a machine's crash does. What was
// acknowledged and is gone its writers send again. Redis before the fix of 2026 leaves the beginning of a torn
// transaction open, so that the next restart but one counts it with what was written later, unless the file is written
// anew before: the stores ask for that.
func tornServer(t *testing.T) (*fire, func(), func(func())) {
	server := redistest.Single(t, redistest.WithConfig("appendonly yes", "appendfsync always"))
	proxy := redistest.Proxy(t, server.Addr)
	f := newFire(t, site{Type: topology.Single, URL: proxy.Addr})
	f.losesAcked = true
	return f, func() {
		for range 5 {
			proxy.Trap("evalsha", redistest.SwallowReply)
			f.awaitAcks(10)
		}
		f.awaitAcks(200) // more than is torn off is of writers that live, and some of that of batches, whatever jobs wrote
		file := f.appendOnlyFile(server)
		server.Kill()
		info, err := os.Stat(file)
		if err == nil {
			err = os.Truncate(file, max(0, info.Size()-int64(20_000+f.random.IntN(8000))))
		}
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second restart would execute what the torn end left open
			server.Restart(t)
			f.rewritten(server)
			f.awaitAcks(20)
			server.Kill()
		}
		server.Restart(t)
	}, drainOnly
}

// appendOnlyFile is the file that a server appends to.
func (f *fire) appendOnlyFile(server *redistest.Server) string {
	f.t.Helper()
	dir := server.Client().ConfigGet(f.t.Context(), "dir").Val()["dir"]
	for _, pattern := range []string{"appendonlydir/*.incr.aof", "appendonly.aof"} { // since 7.0, and before
		if found, _ := filepath.Glob(filepath.Join(dir, pattern)); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	f.t.Fatalf("no append-only file in %s", dir)
	return ""
}

// rewritten waits until a server has written its append-only file again: the store asks for that.
func (f *fire) rewritten(server *redistest.Server) {
	f.t.Helper()
	process.Eventually(f.t, allBack, func() error {
		info, err := server.Info(f.t.Context(), "persistence")
		if err == nil && (info["aof_last_rewrite_time_sec"] == "-1" || info["aof_last_bgrewrite_status"] != "ok") {
			err = fmt.Errorf("it has not written its append-only file again: %v", info)
		}
		return err
	})
}

// laggingReplica lets a replica without the latest batches take over. In the end writers drain while the replica hangs,
// and the primary is killed when they have ended: nobody is left to send again what the replica lacks then.
func laggingReplica(t *testing.T) (*fire, func(), func(func())) {
	set := redistest.Sentinel(t)
	f := newFire(t, site{Type: topology.Sentinel, URL: set.Master + "," + strings.Join(set.Addrs(), ",")})
	f.losesAcked = true
	behind := func() (primary, replica *redistest.Server) {
		primary, replica = set.Await(t), set.Nodes[0]
		if replica == primary {
			replica = set.Nodes[1]
		}
		f.awaitAcks(30) // batches that both have
		replica.Freeze()
		if err := primary.Client().Do(t.Context(), "client", "kill", "type", "replica").Err(); err != nil {
			t.Error(err)
		}
		f.awaitAcks(30) // batches that only the primary has
		return primary, replica
	}
	return f, func() {
			primary, replica := behind()
			primary.Kill()
			replica.Thaw()
			set.AwaitFailover(t, primary)
			f.awaitAcks(30)
			primary.Restart(t)
			set.Await(t)
		}, func(drain func()) {
			primary, replica := behind()
			time.AfterFunc(300*time.Millisecond, replica.Thaw)
			drain()
			primary.Kill()
			set.AwaitFailover(t, primary)
			f.exact()
			primary.Restart(t)
			set.Await(t)
		}
}

// movingSlots migrates slots of partitions.
func movingSlots(t *testing.T) (*fire, func(), func(func())) {
	set := redistest.Cluster(t)
	f := newFire(t, site{Type: topology.Cluster, URL: strings.Join(set.Addrs(), ",")})
	return f, func() {
		for range 5 {
			key := fmt.Sprintf("weir:h{%d}:", seriesOf(f.random.IntN(seriesCount)).Partition())
			from, to := set.NodeOf(t, key), set.Primaries(t)[f.random.IntN(3)]
			if to == from {
				continue
			}
			set.MigrateSlot(t, set.SlotOf(t, key), from, to, func(redistest.Phase) { time.Sleep(100 * time.Millisecond) })
		}
	}, drainOnly
}

// killedNodes kills the nodes of a ring, which come back with their files.
func killedNodes(t *testing.T) (*fire, func(), func(func())) {
	nodes := redistest.Ring(t, 3, redistest.WithConfig("appendonly yes", "appendfsync always"))
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.Addr)
	}
	f := newFire(t, site{Type: topology.Ring, URL: strings.Join(urls, ",")})
	return f, func() {
		for range 3 {
			f.awaitAcks(50)
			nodes[f.random.IntN(len(nodes))].Restart(t)
		}
		f.awaitAcks(50)
	}, drainOnly
}
