package redis

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/script"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// A slot moves to another primary and back while it is counted in: by a script, by a function, and in keys of
// envoyproxy/ratelimit. Of the keys some are there before, others are new in each phase: the old owner sends those on
// with ASK from the first moment, and what makes one may be answered here and its TTL there. The node that gets the
// slot first has no library, and the other one has lost its own, and its scripts, when the slot comes back.
func TestASlotMovesUnderLoad(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t)
	c := topology.Config{Type: topology.Cluster, URL: set.Nodes[0].Addr, Timeout: ample}
	scripts, plainKeys := storeAt(t, c), plainStore(t, learnt(t, c))
	// Without probes, which would load the library everywhere, and with keys of one slot.
	functions := storeOf(learnt(t, c), newScript(), pipeline.ScriptCodec{
		AppendKey: redistest.AppendSumKey, AppendArg: script.AppendArg, DecodeReply: script.Decode})
	defer functions.Close()
	b := newBurden(t, "slot/a", "slot/b", "slot/c", "slot/d")
	var byScript, ofPlain tally
	var phase, next atomic.Int64
	stop := sync.OnceFunc(keepBusy(9, func(client int) {
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
		for _, command := range []string{"function", "script"} {
			if err := move[0].Client().Do(t.Context(), command, "flush").Err(); err != nil {
				t.Error(err)
			}
		}
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
		on      *Store
		counted int64
	}{"by a script": {&byScript, scripts, inScripts}, "of plain keys": {&ofPlain, plainKeys, inPlain}} {
		if failed := load.unknown.Load() + load.away.Load(); failed > 0 {
			t.Errorf("%s %d calls failed; a slot that moves is no reason to", name, failed)
		}
		if want := 3 * load.answered.Load(); load.counted != want {
			t.Errorf("%s %d hits are counted, and %d were answered; want the same", name, load.counted, want)
		}
		if load.on.Stats().Redirects == 0 {
			t.Errorf("%s no check was redirected: the load did not meet the slot while it moved", name)
		}
	}
}
