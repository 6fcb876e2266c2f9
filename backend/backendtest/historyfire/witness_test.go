package historyfire

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// witness stands between an exporter and its store. It writes into the ledger what is recorded, sent and acknowledged,
// before anything else happens, and gives hits minutes by the board's clock, many of them late, as the exporter knows
// only the machine's.
type witness struct {
	history.Store
	child  *child
	ledger *os.File

	mu    sync.Mutex                  // guards the child's random numbers too
	sent  map[[2]uint64]history.Batch // by partition and number: what was sent stays as it is
	heard map[history.Partition]int64
	acked map[history.Partition]uint64 // the last number that the store has acknowledged and, as far as is known, has
}

// note writes a line. A writer that cannot keep its ledger must not go on.
func (w *witness) note(format string, args ...any) {
	if _, err := fmt.Fprintf(w.ledger, format, args...); err != nil {
		panic(err)
	}
}

// drain records hits of some series.
func (w *witness) drain(_ time.Time, yield func(history.ID, uint64)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var h hits
	for n := range h {
		if w.child.random.IntN(4) > 0 {
			h[n] = 1 + w.child.random.Uint64N(1000)
		}
	}
	h[0]++
	w.note("R %v\n", &h)
	for n, count := range h {
		if count > 0 {
			yield(seriesOf(n), count)
		}
	}
}

// Apply implements history.Store.
func (w *witness) Apply(ctx context.Context, p history.Partition, b history.Batch) (history.Receipt, error) {
	if b.Seq > 0 {
		b = w.made(p, b)
	}
	asked := w.child.board.now()
	r, err := w.Store.Apply(ctx, p, b)
	if err != nil {
		return r, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Last < w.acked[p] {
		w.note("G %s %d %d\n", b.Writer, p, r.Last)
		w.acked[p] = r.Last
	}
	if b.Seq > 0 && r.Last >= b.Seq {
		w.note("A %s %d %d %d\n", b.Writer, p, b.Seq, r.Refused)
		w.acked[p] = b.Seq
	}
	w.heard[p] = asked.UnixMicro()
	longest := asked.UnixMicro()
	for _, at := range w.heard {
		longest = min(longest, at)
	}
	w.child.board.at(w.child.Slot, slotHeard).Store(longest)
	return r, nil
}

// made is a batch with its minutes, the same whenever it is sent.
func (w *witness) made(p history.Partition, b history.Batch) history.Batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := [2]uint64{uint64(p), b.Seq}
	made, known := w.sent[key]
	if !known {
		made = history.Batch{Writer: b.Writer, Seq: b.Seq}
		var h hits
		real, now := time.Now().Unix()/60, w.child.board.now().Unix()/60
		used := make(map[history.Increment]bool) // no series and minute may come twice
		for _, i := range b.Increments {
			h[numbers[i.ID]] += i.Hits
			i.Minute = now - (real - i.Minute) - w.late()
			for used[history.Increment{ID: i.ID, Minute: i.Minute}] {
				i.Minute--
			}
			used[history.Increment{ID: i.ID, Minute: i.Minute}] = true
			made.Increments = append(made.Increments, i)
		}
		w.note("S %s %d %d %v\n", b.Writer, p, b.Seq, &h)
		w.sent[key] = made
	}
	made.After = b.After
	return made
}

// late is how many minutes hits are late: most are not, some by weeks. A few are early, as if a clock were wrong.
func (w *witness) late() int64 {
	const day = 24 * 60
	r := w.child.random
	switch n := r.IntN(100); {
	case n < 2:
		return -r.Int64N(3 * 60)
	case n < 60:
		return 0
	case n < 85:
		return r.Int64N(day)
	case n < 95:
		return r.Int64N(12 * day)
	default:
		return r.Int64N(45 * day)
	}
}
