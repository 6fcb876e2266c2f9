package historytest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

var crowdCases = []promiseCase{
	{"JobsWritersAndReadersAtOnce", testCrowd},
}

// testCrowd has writers with lost answers, two jobs and readers at work while days go by. Each answer that a reader
// gets must keep P1, and at the end no hit may be missing.
func testCrowd(t *testing.T, open Open) {
	b := newBench(t, open, history.Retention{})
	const writers, batches = 4, 150
	var crowd, others sync.WaitGroup
	var done atomic.Bool
	sent := make([][]history.Increment, writers)
	for w := range writers {
		crowd.Go(func() { sent[w] = b.write(fmt.Sprint("writer", w), batches, uint64(w)) })
	}
	for range 2 {
		others.Go(func() {
			for !done.Load() {
				if _, err := b.store.Downsample(context.Background(), b.now()); err != nil {
					t.Errorf("Downsample beside writers: %v", err)
					return
				}
			}
		})
		others.Go(func() {
			for !done.Load() {
				if err := p1(b.store); err != nil {
					t.Errorf("a reader beside writers and jobs: %v", err)
					return
				}
			}
		})
	}
	crowd.Wait()
	done.Store(true)
	others.Wait()
	for _, increments := range sent {
		b.naive.apply(increments, b.now())
	}
	b.downsampleStore(b.now())
	b.agreeInSums()
}

// write sends batches and most of them several times at once, while the clock goes on. It returns what it sent.
func (b *bench) write(writer string, batches int, seed uint64) (all []history.Increment) {
	r := rand.New(rand.NewPCG(seed, 1))
	seqs := make(map[history.Partition]uint64)
	for range batches {
		id := history.ID{Domain: "crowd", Path: fmt.Sprint(r.IntN(6))}
		p, minute := id.Partition(), b.minute()
		if r.IntN(4) == 0 {
			minute -= r.Int64N(60 * 1440)
		}
		batch := history.Batch{Writer: writer, Seq: seqs[p] + 1, After: seqs[p]}
		for n := range 1 + r.Int64N(20) {
			batch.Increments = append(batch.Increments, history.Increment{ID: id, Minute: minute - n, Hits: 1 + r.Uint64N(5)})
		}
		seqs[p]++
		all = append(all, batch.Increments...)
		var senders sync.WaitGroup
		for range 1 + r.IntN(3) {
			senders.Go(func() {
				if got, err := b.store.Apply(context.Background(), p, batch); err != nil || got.Last != batch.Seq {
					b.t.Errorf("Apply of batch %d of %s beside others: %+v, %v", batch.Seq, writer, got, err)
				}
			})
		}
		senders.Wait()
		b.wait(time.Duration(r.Int64N(int64(10 * time.Minute))))
	}
	return all
}

// p1 returns an error unless each series that a store has keeps P1 in the answer to one query.
func p1(store history.Store) error {
	return store.Query(context.Background(), Everything(), conserved)
}

// agreeInSums compares the store with the oracle where the moment of each roll is not known: peaks may differ.
func (b *bench) agreeInSums() {
	b.t.Helper()
	got := b.query(Everything())
	if len(got) != len(b.naive.series) {
		b.t.Errorf("there are %d series, want %d", len(got), len(b.naive.series))
	}
	for _, s := range got {
		b.naive.exact(b.t, s, b.minute(), history.DefaultRetention())
	}
}
