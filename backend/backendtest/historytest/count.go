package historytest

import (
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// Count counts increments in a store, no series and minute twice, as batches of a writer of their own.
func Count(t testing.TB, store history.Store, increments ...history.Increment) {
	t.Helper()
	apart := make(map[history.Partition][]history.Increment)
	for _, i := range increments {
		p := i.ID.Partition()
		apart[p] = append(apart[p], i)
	}
	writer := rand.Text()
	for p, all := range apart {
		b := history.Batch{Writer: writer}
		for some := range slices.Chunk(all, history.MaxBatch) {
			b.Seq, b.After, b.Increments = b.Seq+1, b.Seq, some
			if r, err := store.Apply(t.Context(), p, b); err != nil || r != (history.ApplyResult{Status: history.Applied, Last: b.Seq}) {
				t.Fatalf("applying batch %d of %d increments to partition %d: %+v, %v", b.Seq, len(some), p, r, err)
			}
		}
	}
}

// Downsample runs the job on a store at a moment.
func Downsample(t testing.TB, store history.Store, now time.Time) {
	t.Helper()
	if _, err := store.Downsample(t.Context(), now); err != nil {
		t.Fatal(err)
	}
}

// Partners returns series of one partition.
func Partners(n int) (p history.Partition, ids []history.ID) {
	for i := 0; len(ids) < n; i++ {
		id := history.ID{Domain: "shop", Path: fmt.Sprint("user/", i)}
		if i == 0 {
			p = id.Partition()
		}
		if id.Partition() == p {
			ids = append(ids, id)
		}
	}
	return p, ids
}

// All returns all series of a store that have a name.
func All(t testing.TB, store history.Store) map[history.ID]history.Series {
	t.Helper()
	found := make(map[history.ID]history.Series)
	err := store.Query(t.Context(), Everything(), func(s history.Series) error {
		if !s.Unnamed {
			found[s.ID] = s
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
