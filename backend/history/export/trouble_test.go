package export_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
)

// trouble is a store that all can happen to that happens to stores.
type trouble struct {
	*historytest.Ledgers
	mu     sync.Mutex
	first  func(context.Context, history.Partition) error // if not nil, decides first
	random *rand.Rand                                     // if not nil, things go wrong
	// Batches that were answered, and calls that were not.
	answered, failed int
}

// set has a function decide first, and lets things go wrong at random, or with nil not.
func (t *trouble) set(first func(context.Context, history.Partition) error, random *rand.Rand) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.first, t.random = first, random
}

// counts returns how many batches were answered, and how many calls were not.
func (t *trouble) counts() (answered, failed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answered, t.failed
}

func (t *trouble) Apply(ctx context.Context, p history.Partition, b history.Batch) (history.ApplyResult, error) {
	r, err := t.apply(ctx, p, b)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.failed++
	} else if b.Seq > 0 {
		t.answered++
	}
	return r, err
}

func (t *trouble) apply(ctx context.Context, p history.Partition, b history.Batch) (history.ApplyResult, error) {
	t.mu.Lock()
	first, kind, delay := t.first, 0, time.Duration(0)
	if t.random != nil {
		kind = t.random.IntN(12)
		if t.random.IntN(3) == 0 {
			delay = time.Duration(t.random.Int64N(int64(2 * time.Second)))
		}
	}
	t.mu.Unlock()
	if first != nil {
		if err := first(ctx, p); err != nil {
			return history.ApplyResult{}, err
		}
	}
	time.Sleep(delay)
	apply := func() (history.ApplyResult, error) { return t.Ledgers.Apply(ctx, p, b) }
	switch kind {
	case 1:
		return history.ApplyResult{}, errors.New("it never came")
	case 2:
		_, _ = apply()
		return history.ApplyResult{}, errors.New("the reply was lost")
	case 3:
		_, _ = apply()
		return apply()
	case 4: // is counted long after its caller has left
		go func() {
			time.Sleep(8 * time.Second)
			_, _ = apply()
		}()
		<-ctx.Done()
		return history.ApplyResult{}, ctx.Err()
	}
	return apply()
}
