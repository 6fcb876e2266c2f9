package historytest

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// Count counts increments in a store, no series and minute twice, as batches of a writer of their own.
func Count(t testing.TB, store history.Store, increments ...history.Increment) {
	t.Helper()
	writer := rand.Text()
	for p, batches := range split(increments) {
		for i, some := range batches {
			b := history.Batch{Writer: writer, Seq: uint64(i) + 1, After: uint64(i), Increments: some}
			if r, err := store.Apply(t.Context(), p, b); err != nil || r.Status != history.Applied || r.Refused > 0 {
				t.Fatalf("applying %d increments: %+v, %v", len(some), r, err)
			}
		}
	}
}

// Roll runs the job on a store at a moment.
func Roll(t testing.TB, store history.Store, now time.Time) {
	t.Helper()
	if _, err := store.Roll(t.Context(), now); err != nil {
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
