package historyfire

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/export"
	"github.com/weirproxy/weir/backend/history/redishistory"
)

// room is how many hits the last series still takes in the beginning. It is full soon, and the store refuses the rest.
const room = 5_000

// fill brings the last series close to its bound. That is a batch like all others, of a writer of its own.
func (f *fire) fill(store history.Store) {
	f.t.Helper()
	id := seriesOf(full)
	b := history.Batch{Writer: "filler", Seq: 1,
		Increments: []history.Increment{{ID: id, Minute: start.Unix() / 60, Hits: history.MaxTotal - room}}}
	if _, err := store.Apply(context.Background(), id.Partition(), b); err != nil {
		f.t.Fatal(err)
	}
	if servers, are := store.(*redishistory.Store); are {
		if err := servers.Settle(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
	}
	f.filled = history.MaxTotal - room
	f.landed[full] = f.filled
}

// audit asks how far a writer's batches have landed, and adds them to what the series must hold.
func (f *fire) audit(store history.Store, r *running) error {
	a, err := readLedger(r.Ledger)
	if errors.Is(err, os.ErrNotExist) && r.cmd.ProcessState.ExitCode() != 0 {
		return nil // killed before it began
	}
	if err != nil {
		return err
	}
	var landed, forgotten hits
	refused := uint64(0)
	for s, batches := range a.sent {
		at, err := store.Apply(context.Background(), s.p, history.Batch{Writer: s.writer})
		if err != nil {
			return fmt.Errorf("asking for the position of %s: %w", s.writer, err)
		}
		held, err := f.held(a, s, at)
		if err != nil {
			return err
		}
		for n := range batches {
			not, is := held[uint64(n)+1]
			if is {
				landed.add(&batches[n])
				landed[full] -= not
				refused += not
				f.batches++
			} else if _, was := a.acked[s][uint64(n)+1]; was || a.forgot[s][uint64(n)+1] {
				forgotten.add(&batches[n])
			}
		}
	}
	f.landed.add(&landed)
	f.refused += refused
	if a.final != nil {
		return f.balance(a, &landed)
	}
	f.uncounted += forgotten.sum()
	for n := range landed {
		missing := a.recorded[n] - landed[n] - forgotten[n]
		if n == full {
			missing -= refused
		}
		if landed[n] > a.recorded[n] {
			return fmt.Errorf("of %+v %d hits landed, and %d were recorded", seriesOf(n), landed[n], a.recorded[n])
		}
		f.unsent[n] += missing
	}
	return nil
}

// held returns the batches of a writer that its partition must hold, and what was refused of each: those that were
// acknowledged, and the last that landed, whose reply may not have come.
func (f *fire) held(a *account, s sender, at history.Receipt) (map[uint64]uint64, error) {
	held, last := make(map[uint64]uint64), uint64(0)
	for n, refused := range a.acked[s] {
		if n <= at.Last {
			held[n] = refused
		}
		last = max(last, n)
	}
	if sent := uint64(len(a.sent[s])); at.Last > sent || at.Last < last && !f.emptied[s.p] {
		return nil, fmt.Errorf("partition %d has %d batches of %s, which sent %d and had %d acknowledged", s.p, at.Last, s.writer,
			sent, last)
	}
	if told, was := held[at.Last]; was && told != at.Refused {
		return nil, fmt.Errorf("partition %d says that it refused %d hits of batch %d of %s, and told it %d", s.p, at.Refused,
			at.Last, s.writer, told)
	}
	if at.Last > 0 {
		held[at.Last] = at.Refused
	}
	if uint64(len(held)) != at.Last && !f.emptied[s.p] {
		return nil, fmt.Errorf("partition %d has %d batches of %s, and only %d can have landed", s.p, at.Last, s.writer, len(held))
	}
	return held, nil
}

// balance wants P2 of a writer that has drained: what it recorded has landed, or it has counted it.
func (f *fire) balance(a *account, landed *hits) error {
	st := a.final
	f.resent, f.clamped, f.lost = f.resent+st.Resent, f.clamped+st.Clamped, f.lost+st.Lost
	left := st.Recorded - st.Dropped[export.Shutdown] - st.Lost - st.Refused
	if st.Recorded != a.recorded.sum() || left != landed.sum() || st.Waiting > 0 || st.Unsettled > 0 {
		return fmt.Errorf("it recorded %d hits, says %+v, and %d landed: want recorded less dropped, lost and refused",
			a.recorded.sum(), *st, landed.sum())
	}
	if st.Lost > 0 && len(f.emptied) == 0 {
		return fmt.Errorf("%d hits were lost by a writer that lived, and no server came back empty", st.Lost)
	}
	return nil
}
