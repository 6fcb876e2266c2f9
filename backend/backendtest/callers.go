package backendtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// Ask decides one check, and fails the test if it gets no answer.
func Ask(t testing.TB, on backend.Counter, c backend.Check) backend.Decision {
	t.Helper()
	var out [1]backend.Decision
	if err := backend.DecideAll(context.Background(), on, []backend.Check{c}, out[:]); err != nil {
		t.Errorf("Decide: %v", err)
	}
	return out[0]
}

// Apart keeps the keys of one store of a test apart from those of others on the same servers.
type Apart struct {
	backend.Counter
	Own string // begins its keys
}

// Decide asks the store with other keys.
func (a Apart) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	checks = slices.Clone(checks)
	for i := range checks {
		if len(checks[i].Key) > 0 {
			checks[i].Key = append([]byte(a.Own), checks[i].Key...)
		}
	}
	return a.Counter.Decide(ctx, checks, out)
}

// KeepBusy lets clients call f until stop is called, which waits for them. They pause, or nobody else has the machine.
func KeepBusy(clients int, f func(client int)) (stop func()) {
	var running sync.WaitGroup
	var stopped atomic.Bool
	for i := range clients {
		running.Go(func() {
			for !stopped.Load() {
				f(i)
				time.Sleep(time.Millisecond)
			}
		})
	}
	return func() {
		stopped.Store(true)
		running.Wait()
	}
}

// ExactlyN lets 64 clients of stores with the same counts race for keys, and fails the test unless each key admits n
// hits. It returns how many checks had no answer: so many less may be admitted.
func ExactlyN(t *testing.T, keys, n int, limits []descriptors.Limit, stores ...backend.Counter) (unanswered int) {
	t.Helper()
	admitted, each := make([]atomic.Int64, keys), 2*n*keys/64+1
	var unknown atomic.Int64
	var clients sync.WaitGroup
	for client := range 64 {
		clients.Go(func() {
			for i := range each {
				key := (client*each + i) % keys
				var out [1]backend.Decision
				checks := []backend.Check{{Key: fmt.Append(nil, "key ", key), Limits: limits, Hits: 1}}
				if err := stores[client%len(stores)].Decide(t.Context(), checks, out[:]); err != nil {
					t.Error(err)
				}
				switch {
				case out[0].Err != nil:
					unknown.Add(1)
				case out[0].Allowed:
					admitted[key].Add(1)
				}
			}
		})
	}
	clients.Wait()
	unanswered = int(unknown.Load())
	for key := range admitted {
		if got := int(admitted[key].Load()); got > n || got+unanswered < n {
			t.Fatalf("of the key %d, %d hits were admitted under a limit of %d, and %d had no answer", key, got, n, unanswered)
		}
	}
	return unanswered
}
