package historyfire

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/backend/redis"
)

var (
	writerSteps = []string{anyStep, "apply", "applied", "applied", "roll 1m", "rolled 1m", "roll 5m", "rolled 5m"}
	jobSteps    = []string{anyStep, anyStep, anyStep, anyStep, "roll 1m", "rolled 1m", "roll 5m", "rolled 5m", "roll 1h",
		"rolled 1h", "expire", "expired", "forget", "forgot"}
)

// round is some time under fire: writers that live through it, writers and jobs that are killed again and again, and
// whatever else befalls the servers.
type round struct {
	survivors   int
	writerKills int
	jobKills    int
	store       history.Store // of the tests
	disturb     func()        // may be nil
}

// roundsOf returns how many of a test's rounds there are: all if -kills is large, fewer so that a round has its kills.
func roundsOf(all int) int { return max(1, min(all, all*(*kills)/240)) }

// burn runs a round, and compares every series when all its writers have ended. The clock goes on all the while, but
// never so far that a store could forget a writer that is alive, or that has not been audited.
func (f *fire) burn(r round) {
	f.t.Helper()
	const far = history.ForgetAfter * 5 / 7
	begin := f.board.now()
	var done atomic.Bool
	var watchers, crowd sync.WaitGroup
	watchers.Go(func() {
		for !done.Load() {
			if now := f.board.now(); now.Sub(begin) < far && now.Sub(f.heard()) < far {
				f.board.advance(10 * time.Minute)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	reads, refused := 0, 0
	watchers.Go(func() {
		for !done.Load() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			err := r.store.Query(ctx, everything(), func(s history.Series) error {
				reads++
				if err := conserved(s); err != nil {
					f.t.Errorf("-seed %d, in the midst of it: %v", *seed, err)
				}
				return nil
			})
			cancel()
			if err != nil { // a server is away, or a slot is on its way
				refused++
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	var survivors []*running
	for range r.survivors {
		survivors = append(survivors, f.start("writer", "", 0))
	}
	churn := func(role string, steps []string, left *atomic.Int64) {
		crowd.Go(func() {
			for left.Add(-1) >= 0 && !f.t.Failed() {
				f.killOne(role, steps)
			}
		})
	}
	var writers, jobs atomic.Int64
	writers.Store(int64(r.writerKills))
	jobs.Store(int64(r.jobKills))
	churn("writer", writerSteps, &writers)
	churn("writer", writerSteps, &writers)
	churn("job", jobSteps, &jobs)
	churn("job", jobSteps, &jobs)
	if r.disturb != nil {
		r.disturb()
	}
	crowd.Wait()
	for _, s := range survivors {
		f.stop(s)
	}
	done.Store(true)
	watchers.Wait()
	f.t.Logf("round over: %d series were read under fire, each exact; %d questions had no answer", reads, refused)
	f.exact(r.store)
}

// heard returns when the store last answered the living writer that has waited longest.
func (f *fire) heard() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	oldest := f.board.now()
	for r := range f.living {
		if r.Role != "job" {
			if at := time.UnixMicro(f.board.at(r.Slot, slotHeard).Load()); at.Before(oldest) {
				oldest = at
			}
		}
	}
	return oldest
}

// finish rolls what is left to roll, compares once more, and reports.
func (f *fire) finish(store history.Store) {
	f.t.Helper()
	did, err := store.Roll(context.Background(), history.Job{Now: f.board.now()})
	if err != nil {
		f.t.Errorf("the job after it all: %v", err)
	}
	f.t.Logf("the last job moved %v chunks", did.Chunks)
	f.exact(store)
	f.report()
}

// opened is the tests' own store, with a series that is almost full.
func (f *fire) opened() history.Store {
	store, err := f.site.open(f.board, func(string) {})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { store.Close() })
	f.fill(store)
	return store
}

// awaitSteps waits until writers have come to so many more steps: how long that takes is the machine's business.
func (f *fire) awaitSteps(n int64) {
	f.t.Helper()
	steps := func() (all int64) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, r := range f.writers {
			all += f.board.at(r.Slot, slotSteps).Load()
		}
		return all
	}
	want, begin := steps()+n, time.Now()
	for steps() < want {
		if time.Sleep(5 * time.Millisecond); time.Since(begin) > time.Minute {
			f.t.Errorf("within a minute writers have not come to %d steps", n)
			return
		}
	}
}

// rewritten waits until a server has written its append-only file again.
func (f *fire) rewritten(server *redistest.Server) {
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(50 * time.Millisecond) {
		if info, err := server.Info(context.Background(), "persistence"); err == nil &&
			info["aof_last_rewrite_time_sec"] != "-1" && info["aof_last_bgrewrite_status"] == "ok" {
			return
		}
	}
	f.t.Error("a server that was restarted has not written its append-only file again within a minute: the store asks for it")
}

// TestARedisThatIsKilledHoldsEachHitOnce kills writers, jobs and the server, whose append-only file is synced always,
// and loses replies all the while.
func TestARedisThatIsKilledHoldsEachHitOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t, redistest.WithConfig("appendonly yes", "appendfsync always"))
	proxy := redistest.Proxy(t, server.Addr)
	f := newFire(t, site{URL: proxy.Addr}, 10)
	store := f.opened()
	const serverKills = 3
	rounds := roundsOf(4)
	for range rounds {
		f.burn(round{survivors: 2, writerKills: *kills * 9 / 100 / rounds, jobKills: *kills * 16 / 100 / rounds, store: store,
			disturb: func() {
				for range serverKills {
					for range 4 {
						action := []redistest.Action{redistest.ResetBefore, redistest.CloseBefore, redistest.ResetAfter,
							redistest.CloseAfter, redistest.SwallowReply}[f.chance(5)]
						sprung := proxy.Trap("evalsha", action)
						select {
						case <-sprung:
						case <-time.After(2 * time.Second):
						}
						time.Sleep(time.Duration(f.chance(80)) * time.Millisecond)
					}
					server.Restart(t)
					f.count("redis, restarted with its file")
				}
			}})
	}
	t.Logf("the proxy lost %d connections on purpose", rounds*serverKills*4)
	f.finish(store)
}

// count notes a kill of a server.
func (f *fire) count(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tally[what]++
}

// TestAFailoverThatForgetsIsMadeGoodByTheWriters has a replica become the primary that misses batches which the old
// one, killed then, had acknowledged. Writers that live send them again.
func TestAFailoverThatForgetsIsMadeGoodByTheWriters(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinel(t)
	f := newFire(t, site{Type: redis.Sentinel, URL: set.Master + "," + strings.Join(set.Addrs(), ",")}, 11)
	store := f.opened()
	rounds := roundsOf(2)
	for range rounds {
		f.burn(round{survivors: 2, writerKills: *kills * 3 / 100 / rounds, jobKills: *kills * 4 / 100 / rounds, store: store})
		f.burn(round{survivors: 2, jobKills: *kills * 4 / 100 / rounds, store: store,
			disturb: func() { f.forgetfulFailover(set) }})
	}
	f.finish(store)
	if f.resent == 0 {
		t.Error("no batch was sent again: no failover has forgotten one, and this test has shown nothing")
	}
}

// behind has batches land that the primary has and its replica has not, which hangs from then on.
func (f *fire) behind(set *redistest.SentinelSet) (primary, replica *redistest.Server) {
	primary, replica = set.Await(f.t), set.Nodes[0]
	if replica == primary {
		replica = set.Nodes[1]
	}
	f.awaitSteps(200) // batches that both have
	replica.Stop()
	if err := primary.Client().Do(context.Background(), "client", "kill", "type", "replica").Err(); err != nil {
		f.t.Error(err)
	}
	f.awaitSteps(200) // batches that only the primary has
	return primary, replica
}

// forgetfulFailover kills a primary whose replica has not heard of the latest writes.
func (f *fire) forgetfulFailover(set *redistest.SentinelSet) {
	primary, replica := f.behind(set)
	primary.Kill()
	replica.Cont()
	f.count("redis, for its replica")
	set.AwaitFailover(f.t, primary)
	f.awaitSteps(100)
	primary.Restart(f.t)
	set.Await(f.t)
}

// TestNothingIsLostWhileSlotsMoveUnderFire migrates the slots of a cluster's partitions there and back.
func TestNothingIsLostWhileSlotsMoveUnderFire(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t)
	f := newFire(t, site{Type: redis.Cluster, URL: strings.Join(set.Addrs(), ",")}, 12)
	store := f.opened()
	const moves = 5
	rounds := roundsOf(2)
	for range rounds {
		f.burn(round{survivors: 1, writerKills: *kills * 3 / 100 / rounds, jobKills: *kills * 5 / 100 / rounds, store: store,
			disturb: func() {
				for range moves {
					key := fmt.Sprintf("%s{%d}:", redishistory.Prefix, seriesOf(f.chance(seriesCount)).Partition())
					from := set.NodeOf(t, key)
					to := from
					for to == from {
						to = set.Primaries(t)[f.chance(3)]
					}
					set.MigrateSlot(t, set.SlotOf(t, key), from, to, func(redistest.Phase) {
						time.Sleep(time.Duration(100+f.chance(200)) * time.Millisecond)
					})
				}
			}})
	}
	t.Logf("%d slots moved", rounds*moves)
	f.finish(store)
}
