package backendtest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
)

// Player asks a store all checks of a history, call by call, and gives an answer for each. With an error it gives those
// before the check that has none.
type Player func(h History) ([]backend.Decision, error)

// Walks say how long stores are walked, and how.
type Walks struct {
	Steps int    // checks of all histories together, at least
	Seed  uint64 // the same seed gives the same histories
	Keys  int    // of a history, at most; from 2 on every eighth has that many, and calls of up to 64 checks
	// Patience is how long a store may take for a history, if it drops keys by a clock that is not the history's. A key
	// that has less to live is not asked again before it is gone, and windows are at least six times as long.
	Patience time.Duration
	many     bool // each history has many keys, not every eighth
}

// Agree walks a store through random histories, as many at once as it has players, and fails unless each answer is
// what the model of its algorithm decides. It then shows the shortest history that it can find.
func Agree(t *testing.T, o Walks, players ...Player) {
	t.Helper()
	var rounds, steps atomic.Int64
	var walking sync.WaitGroup
	for _, play := range players {
		walking.Go(func() {
			for steps.Load() < int64(o.Steps) && !t.Failed() {
				h := newHistory(o, int(rounds.Add(1)))
				if !agrees(t, h, play) {
					return
				}
				steps.Add(int64(len(h.Asks)))
			}
		})
	}
	walking.Wait()
	t.Logf("%d steps in %d histories of seed %d", steps.Load(), rounds.Load(), o.Seed)
}

// agrees plays one history, and reports what is wrong.
func agrees(t *testing.T, h History, play Player) bool {
	t.Helper()
	step, answer := h.wrong(play(h))
	if step < 0 {
		return true
	}
	a := h.Asks[step]
	t.Errorf("history %s, step %d of key %s under %v, charge %d: the store answers\n%s; its model says\n"+
		"%+v\n%s", h.Name, step, a.Check.Key, a.Check.Limits, a.Check.Charge, answer, a.Want, shorten(h, step, play))
	return false
}

// maxReplays bounds the search for a short history.
const maxReplays = 400

// shorten plays less and less of a history that went wrong at a step, on fresh keys, and describes the least that
// still goes wrong.
func shorten(h History, step int, play Player) string {
	key := h.Asks[step].Check.Key
	own := h
	own.Asks = slices.DeleteFunc(slices.Clone(h.Asks[:step+1]), func(a Ask) bool { return !bytes.Equal(a.Check.Key, key) })
	replays := 0
	again := func(asks []Ask) (tried History, answer string, fails bool) {
		replays++
		tried = rewritten(fmt.Sprintf("%s/again/%d", h.Name, replays), asks)
		step, answer := tried.wrong(play(tried))
		tried.Asks = tried.Asks[:step+1]
		return tried, answer, step >= 0
	}
	short, answer, fails := again(own.Asks)
	if !fails {
		return fmt.Sprintf("The checks of this key alone go well; in its company went wrong\n%s", own)
	}
	for size := len(short.Asks) / 2; size > 0; size /= 2 {
		for at := 0; at+size < len(short.Asks) && replays < maxReplays; {
			tried, got, fails := again(slices.Concat(short.Asks[:at], short.Asks[at+size:]))
			if fails {
				short, answer = tried, got
			} else {
				at += size
			}
		}
	}
	return fmt.Sprintf("These alone, on a new key, end with %s in place of the last:\n%s", answer, short)
}

// rewritten returns a history of asks on one new key, with what is now wanted.
func rewritten(name string, asks []Ask) History {
	h := History{Name: name, Asks: slices.Clone(asks)}
	m := newModel(rule{limits: asks[0].Check.Limits, charge: asks[0].Check.Charge})
	for i := range h.Asks {
		a := &h.Asks[i]
		a.Check.Key = []byte(name)
		m.follow(a.Check.Limits)
		a.Want = m.decide(a.Check.Op, a.Check.Hits, a.Now)
	}
	return h
}
