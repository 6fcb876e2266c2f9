package redis

import (
	"cmp"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/script"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

// burden is a load of hits on the same keys, each under two sliding windows that no test fills or outlives: every hit
// that is counted stays in both of them.
type burden struct {
	tally
	keys   []string
	limits []descriptors.Limit

	mu     sync.Mutex
	errors map[string]int // of the calls without an answer
}

func newBurden(t *testing.T, keys ...string) *burden {
	t.Helper()
	return &burden{keys: keys, errors: make(map[string]int), limits: []descriptors.Limit{
		backendtest.NewLimit(t, 1<<40, descriptors.Hour, 12, descriptors.SlidingWindow, 0),
		backendtest.NewLimit(t, 1<<40, descriptors.Week, 1, descriptors.SlidingWindow, 0),
	}}
}

// call makes one call, of a hit on each key, and notes what came of it.
func (b *burden) call(t *testing.T, on backend.Counter) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), ample)
	defer cancel()
	checks := make([]backend.Check, len(b.keys))
	for i, key := range b.keys {
		checks[i] = backend.Check{Key: []byte(key), Limits: b.limits, Hits: 1}
	}
	err := backend.DecideAll(ctx, on, checks, make([]backend.Decision, len(checks)))
	b.note(t, err)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.errors[err.Error()]++
	}
}

// goOn waits until so many calls more are answered of each of some loads.
func goOn(t *testing.T, when string, calls int64, loads ...*tally) {
	t.Helper()
	for _, n := range loads {
		before := n.answered.Load()
		redistest.Until(t, fmt.Sprintf("%d calls more are answered %s", calls, when), func() bool {
			return n.answered.Load() >= before+calls
		})
	}
}

// counted wants each key to hold from least to most hits under each limit.
func (b *burden) counted(t *testing.T, on backend.Counter, least, most int64) {
	t.Helper()
	for _, key := range b.keys {
		for i := range b.limits {
			check := backend.Check{Key: []byte(key), Limits: b.limits[i : i+1], Op: backend.Look}
			out := make([]backend.Decision, 1)
			if err := backend.DecideAll(t.Context(), on, []backend.Check{check}, out); err != nil {
				t.Fatal(err)
			}
			if got := int64(out[0].Before); got < least || got > most {
				t.Errorf("key %q holds %d hits under %v; want from %d to %d: %d calls were answered, and %d not", key, got,
					b.limits[i].Window, least, most, b.answered.Load(), b.unknown.Load())
			}
		}
	}
}

// exact wants every call to have been answered, and counted once.
func (b *burden) exact(t *testing.T, on backend.Counter) {
	t.Helper()
	if n := b.unknown.Load(); n > 0 {
		t.Errorf("%d of %d calls failed: %v", n, n+b.answered.Load(), slices.Collect(maps.Keys(b.errors)))
	}
	b.counted(t, on, b.answered.Load(), b.answered.Load())
}

// flush takes servers all libraries and scripts.
func flush(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	for _, server := range servers {
		ctx, client := t.Context(), server.Client()
		if err := errors.Join(client.FunctionFlush(ctx).Err(), client.ScriptFlush(ctx).Err()); err != nil {
			t.Errorf("flushing %s: %v", server.Addr, err)
		}
	}
}

// librariesOf are the names of a server's libraries, sorted.
func librariesOf(t *testing.T, server *redistest.Server) (names []string) {
	t.Helper()
	all, err := server.Client().FunctionList(t.Context(), goredis.FunctionListQuery{}).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range all {
		names = append(names, library.Name)
	}
	slices.Sort(names)
	return names
}

// withFunctions runs a test on each release that has functions, in the short form on that on PATH.
func withFunctions(t *testing.T, f func(t *testing.T, release string)) {
	t.Helper()
	for _, release := range append(redistest.Releases(t), "") {
		if release == "" || release != oldest && !testing.Short() {
			t.Run(cmp.Or(release, "on PATH"), func(t *testing.T) {
				t.Parallel()
				f(t, release)
			})
		}
	}
}

// version is the script of another version of weir, which differs from this one's by a comment.
func version(name string) *pipeline.Script {
	library := libraryOf(name)
	return pipeline.NewScript(script.Source()+"-- "+name).
		WithLibrary(strings.ReplaceAll(script.Library(), script.Function(), library), library)
}

// libraryOf is what a version calls its library.
func libraryOf(version string) string {
	return fmt.Sprintf("%s%x", "weir_", sha1.Sum([]byte(version)))[:len(script.Function())]
}

// Two versions have two libraries, and count in the same keys. One that an operator has removed is loaded again.
func TestRemovedLibraryIsLoadedAgain(t *testing.T) {
	t.Parallel()
	withFunctions(t, func(t *testing.T, release string) {
		server := redistest.Single(t, redistest.WithRelease(release), redistest.WithACL("ann", secret, countingRules()...))
		user := topology.Config{URL: server.Addr, Auth: "ann:" + secret, Timeout: ample}
		b, older := newBurden(t, "key"), openedWith(t, user, nil, version("older"))
		b.call(t, older)
		if err := server.Client().FunctionDelete(t.Context(), libraryOf("older")).Err(); err != nil {
			t.Fatal(err)
		}
		newer := openedWith(t, user, nil, version("newer"))
		b.call(t, newer)
		b.call(t, older)
		b.exact(t, newer)
		if got := librariesOf(t, server); len(got) != 2 {
			t.Errorf("the libraries are %v; want those of both versions", got)
		}
	})
}

func TestLostScriptFailsNoCall(t *testing.T) {
	t.Parallel()
	for _, kind := range []topology.Type{topology.Single, topology.Cluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			set := redistest.Start(t, string(kind))
			c, primaries := topology.Config{Type: kind, URL: set.URL}, set.Servers
			if set.Cluster != nil {
				primaries = set.Cluster.Primaries(t)
			}
			functions, scripts := openedWith(t, c, nil, newScript()), openedWith(t, c, nil, scriptOnly())
			byFunction, byScript := newBurden(t, "a", "b", "c", "d"), newBurden(t, "e", "f", "g", "h")
			stop := sync.OnceFunc(backendtest.KeepBusy(4, func(int) { byFunction.call(t, functions); byScript.call(t, scripts) }))
			defer stop()
			answered := [2]int64{-1, -1} // at the last flush: on a slow machine the next would meet each try of a call
			redistest.Until(t, "many flushes have met checks by each way", func() bool {
				now := [2]int64{byFunction.answered.Load(), byScript.answered.Load()}
				if now[0] == answered[0] || now[1] == answered[1] {
					return false
				}
				answered = now
				flush(t, primaries...)
				unknown := callsOf(t, "failed_calls", set.Servers...)
				return unknown["fcall"] >= 10 && unknown["evalsha"] >= 10
			})
			stop()
			byFunction.exact(t, functions)
			byScript.exact(t, scripts)
		})
	}
}

// A replica that becomes the primary without the library, as one that was restarted or restored may, is given it. What
// the fail-over itself loses is lost with the library there, too: connections, and hits that were not replicated yet.
func TestFailoverLoadsTheMissingLibrary(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]func() *pipeline.Script{
		"without the library": newScript, "without the script": scriptOnly,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := redistest.Sentinel(t)
			c := topology.Config{Type: topology.Sentinel, URL: set.Master + "," + strings.Join(set.Addrs(), ",")}
			s, plain := openedWith(t, c, nil, code()), ratelimitStore(t, connect(t, c))
			b, n := newBurden(t, "a", "b", "c"), new(tally)
			stop := sync.OnceFunc(backendtest.KeepBusy(4, func(client int) {
				b.call(t, s)
				n.hit(t, plain, 200*time.Millisecond, fmt.Sprintf("\x00d_k_%d_", client))
			}))
			defer stop()
			goOn(t, "", 50, &b.tally, n)
			primary := set.Await(t)
			replica := set.Nodes[1]
			if replica == primary {
				replica = set.Nodes[0]
			}
			setReadOnly := func(value string) {
				if err := replica.Client().ConfigSet(t.Context(), "replica-read-only", value).Err(); err != nil {
					t.Fatal(err)
				}
			}
			setReadOnly("no")
			flush(t, replica)
			setReadOnly("yes")
			if got := librariesOf(t, replica); len(got) > 0 {
				t.Fatalf("the replica has %v", got)
			}
			after := set.Failover(t)
			if after != replica {
				t.Fatalf("%s is the primary, want %s", after.Addr, replica.Addr)
			}
			goOn(t, "by the new primary", 50, &b.tally, n)
			stop()
			b.counted(t, s, 1, b.answered.Load()+b.unknown.Load())
			if got, immortal := heldBy(t, after, ofPlainStore); got > n.answered.Load()+n.unknown.Load() || immortal > 0 {
				t.Errorf("%d hits of plain keys are counted, and %d of these have no TTL; want %d at most, each hit once", got, immortal,
					n.answered.Load()+n.unknown.Load())
			}
			if got := librariesOf(t, after); (len(got) == 1) != (name != "without the script") {
				t.Errorf("the new primary has the libraries %v", got)
			}
			for text, n := range b.errors {
				t.Logf("%d calls failed: %s", n, text)
				for _, ours := range []string{"unction", "NOSCRIPT", "script"} {
					if strings.Contains(text, ours) {
						t.Errorf("%d calls failed: %s; what is missing has to be loaded", n, text)
					}
				}
			}
		})
	}
}

// A user may lose the right to call functions, as in a fail-over to a replica, whose rights are its own. Scripts serve
// until a probe finds that functions may be called again.
func TestLostFunctionRightFallsBackToScripts(t *testing.T) {
	t.Parallel()
	withFunctions(t, func(t *testing.T, release string) {
		server := redistest.Single(t, redistest.WithRelease(release),
			redistest.WithACL("ann", secret, append(countingRules(), append(scriptRules(), "+info")...)...))
		c := topology.Config{URL: server.Addr, Auth: "ann:" + secret}
		s := opened(t, c, nil)
		b := newBurden(t, "a", "b", "c")
		stop := sync.OnceFunc(backendtest.KeepBusy(8, func(int) { b.call(t, s) }))
		defer stop()
		client, evals := ownerOf(t, c), 0
		for range 10 {
			for _, rule := range []string{"-fcall", "+fcall"} {
				if err := server.Client().ACLSetUser(context.Background(), "ann", rule).Err(); err != nil {
					t.Fatal(err)
				}
				goOn(t, "", 50, &b.tally)
			}
			before := evals
			if evals = callsOf(t, "calls", server)["evalsha"]; evals == before {
				t.Error("nobody was called by scripts while functions were forbidden")
			}
			if mode, err := s.script.Load(t.Context(), client); err != nil || mode.Command != "fcall" { // as a probe does
				t.Errorf("a probe finds the way %+v, %v; want fcall", mode, err)
			}
			goOn(t, "", 50, &b.tally)
		}
		stop()
		b.exact(t, s)
	})
}

// A demoted primary that has copied one without the library knows no function and takes none. Connections to it lead
// nowhere, all of them, however many there are: new ones lead to the primary, as a Service of Kubernetes has it.
func TestDemotedPrimaryIsLeftAtOnce(t *testing.T) {
	t.Parallel()
	nodes := redistest.Ring(t, 2)
	before, after := nodes[0], nodes[1]
	service := redistest.Proxy(t, before.Addr)
	s := opened(t, topology.Config{URL: service.Addr}, nil)
	b := newBurden(t, "a")
	b.call(t, s)
	before.Freeze()
	var calling sync.WaitGroup
	redistest.Until(t, "there are ten connections", func() bool {
		calling.Go(func() { b.call(t, s) })
		time.Sleep(2 * time.Millisecond)
		return service.Counts().Connections >= 10
	})
	before.Thaw()
	calling.Wait()
	host, port, _ := strings.Cut(after.Addr, ":")
	if err := before.Client().ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	redistest.Until(t, "the demoted one has copied the other", func() bool { return len(librariesOf(t, before)) == 0 })
	service.Redirect(after.Addr)
	asked := callsOf(t, "failed_calls", before)["fcall"]
	last := newBurden(t, "b")
	last.call(t, s)
	last.exact(t, s)
	if n := callsOf(t, "failed_calls", before)["fcall"] - asked; n > 6 {
		t.Errorf("the demoted one was asked %d times more, want 6 at most: by the check, to load the library, and by a probe", n)
	}
}

// A slot moves to another primary and back while it is counted in: by a script, by a function, and in keys of
// envoyproxy/ratelimit. Of the keys some are there before, others are new in each phase: the old owner sends those on
// with ASK from the first moment, and what makes one may be answered here and its TTL there. The node that gets the
// slot first has no library, and the other one has lost its own, and its scripts, when the slot comes back.
func TestSlotMigrationKeepsCounts(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t)
	c := topology.Config{Type: topology.Cluster, URL: set.Nodes[0].Addr, Timeout: ample}
	scripts, plainKeys := storeAt(t, c), ratelimitStore(t, connectMapped(t, c))
	// Without probes, which would load the library everywhere, and with keys of one slot.
	functions := storeOf(connectMapped(t, c), newScript(), pipeline.ScriptCodec{
		AppendKey: redistest.AppendSumKey, AppendArg: script.AppendArg, DecodeReply: script.Decode})
	defer functions.Close()
	b := newBurden(t, "slot/a", "slot/b", "slot/c", "slot/d")
	var byScript, ofPlain tally
	var phase, next atomic.Int64
	stop := sync.OnceFunc(backendtest.KeepBusy(9, func(client int) {
		i := next.Add(1)
		switch client % 3 {
		case 0:
			b.call(t, functions)
		case 1:
			byScript.note(t, decide(scripts, ample, fmt.Sprint("slot/old", i%20),
				fmt.Sprint("slot/new", phase.Load(), " ", i%10), fmt.Sprint("other", client)))
		default:
			ofPlain.note(t, decide(plainKeys, ample, fmt.Sprintf("\x00d_{slot}old_%d_", i%20),
				fmt.Sprintf("\x00d_{slot}new_%d %d_", phase.Load(), i%500), fmt.Sprintf("\x00d_other_%d_", client)))
		}
	}))
	defer stop()
	during := func(p redistest.Phase) {
		phase.Add(1)
		goOn(t, fmt.Sprintf("while the slot is %q", p), 20, &b.tally, &byScript, &ofPlain)
	}
	during("at rest")
	slot, from := set.SlotOf(t, redistest.SumKey("slot/")), set.NodeOf(t, redistest.SumKey("slot/"))
	to := set.Primaries(t)[0]
	if to == from {
		to = set.Primaries(t)[1]
	}
	for _, move := range [][2]*redistest.Server{{from, to}, {to, from}} {
		if got := librariesOf(t, move[1]); len(got) > 0 {
			t.Errorf("the node that gets the slot has %v, want no library", got)
		}
		set.MigrateSlot(t, slot, move[0], move[1], during)
		flush(t, move[0])
	}
	stop()
	b.exact(t, functions)
	if got := librariesOf(t, from); len(got) != 1 {
		t.Errorf("the slot's owner has the libraries %v, want its own", got)
	}
	var inScripts, inPlain int64
	for _, node := range set.Primaries(t) {
		byScripts, _ := heldBy(t, node, "t:*")
		sum, immortal := heldBy(t, node, ofPlainStore)
		inScripts, inPlain = inScripts+byScripts, inPlain+sum
		if immortal > 0 {
			t.Errorf("%d keys have no TTL; they would stay for ever", immortal)
		}
	}
	for name, load := range map[string]struct {
		*tally
		command string
		counted int64
	}{"by a script": {&byScript, "evalsha", inScripts}, "of plain keys": {&ofPlain, "incrby", inPlain}} {
		if failed := load.unknown.Load() + load.away.Load(); failed > 0 {
			t.Errorf("%s %d calls failed; a slot that moves is no reason to", name, failed)
		}
		if want := 3 * load.answered.Load(); load.counted != want {
			t.Errorf("%s %d hits are counted, and %d were answered; want the same", name, load.counted, want)
		}
		if callsOf(t, "rejected_calls", set.Nodes...)[load.command] == 0 {
			t.Errorf("%s no check was redirected: the load did not meet the slot while it moved", name)
		}
	}
}
