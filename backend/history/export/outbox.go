package export

import (
	"crypto/rand"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

const (
	maxSums = 1024 // most sums of dropped batches, which tell how many hits a store has lost
	maxGaps = 3    // gaps in a row after which the exporter backs off
)

// outbox has the hits for one partition: pending cells, unacknowledged batches, and acknowledged batches that the store
// may still lose. The exporter's lock guards its fields.
type outbox struct {
	partition history.Partition
	writer    string
	keepAcked time.Duration // how long an acknowledged batch is kept
	seq       uint64        // number of the newest batch
	position  uint64        // number of the last batch that the store is known to have
	pending   map[cell]uint64
	batches   []*numberedBatch // oldest first; batches[:acked] are acknowledged, the others are to be sent
	acked     int
	sums      []sum     // sums of the batches before these, oldest first; with more than maxSums, the first one is of several
	lastHeard time.Time // when the store last answered, or the first batch was made

	due            bool // there is something to send
	busy           bool // a goroutine sends
	probe          bool // the next send must first read the store's position
	failures, gaps int  // in a row
	retryAt        time.Time
}

// cell names pending hits: those of a series in a minute, or in the hour that begins with it.
type cell struct {
	id     history.ID
	minute int64
}

// numberedBatch is a batch and its state.
type numberedBatch struct {
	batch   history.Batch // without After, which next sets
	hits    uint64
	refused uint64
	applied bool      // the store has acknowledged it at least once
	at      time.Time // when the store last acknowledged it
}

// sum is the number of counted hits of dropped batches, from the one after the last sum up to seq.
type sum struct{ seq, hits uint64 }

// waiting returns the number of cells that are not acknowledged.
func (o *outbox) waiting() int {
	n := len(o.pending)
	for _, nb := range o.batches[o.acked:] {
		n += len(nb.batch.Increments)
	}
	return n
}

// next returns the batch to send: one that is not acknowledged, else a new one, else an empty one that asks for the
// position.
func (o *outbox) next(now time.Time, st *Stats) (b history.Batch, found bool) {
	if o.seq > 0 && now.Sub(o.lastHeard) > history.WriterTTL/2 {
		o.changeWriter(st)
	}
	if o.acked == len(o.batches) && len(o.pending) > 0 {
		o.makeBatch(now)
	}
	switch {
	case o.acked < len(o.batches):
		b = o.batches[o.acked].batch
	case o.probe:
		b.Writer = o.writer
	default:
		return b, false
	}
	b.After = o.position
	return b, true
}

// makeBatch makes a batch of pending cells.
func (o *outbox) makeBatch(now time.Time) {
	o.seq++
	nb := &numberedBatch{batch: history.Batch{Writer: o.writer, Seq: o.seq}}
	for c, hits := range o.pending {
		if len(nb.batch.Increments) == history.MaxBatch {
			break
		}
		nb.batch.Increments = append(nb.batch.Increments, history.Increment{ID: c.id, Minute: c.minute, Hits: hits})
		nb.hits += hits
		delete(o.pending, c)
	}
	if o.seq == 1 {
		o.lastHeard = now
	}
	o.batches = append(o.batches, nb)
}

// changeWriter restarts the numbers of batches at 1, under a new name, and gives unacknowledged batches up. The store
// may have removed the position of a writer that was silent for so long, and would then seem to have lost hits.
func (o *outbox) changeWriter(st *Stats) {
	for _, nb := range o.batches[o.acked:] {
		st.Lost += nb.hits - nb.refused
	}
	o.writer, o.seq, o.position, o.batches, o.acked, o.sums, o.probe = rand.Text(), 0, 0, nil, 0, nil, false
}

// noteAnswer records the store's answer to a batch. It returns an error if the store loses batches again and again.
func (o *outbox) noteAnswer(now time.Time, b history.Batch, r history.ApplyResult, st *Stats) error {
	o.lastHeard = now
	o.probe = o.probe && b.Seq > 0
	if r.Last < max(b.Seq, o.position) {
		return o.rewind(r.Last, st)
	}
	if b.Seq == 0 {
		o.evict(now)
		return nil
	}
	o.gaps = 0
	nb := o.batches[o.acked]
	nb.at = now
	if r.Last == b.Seq {
		st.Refused += r.Refused - nb.refused // nb.refused may come from a server that was replaced
		nb.refused = r.Refused
	}
	if !nb.applied {
		nb.applied = true
		st.Applied += nb.hits - nb.refused
	}
	o.position = b.Seq
	o.acked++
	o.evict(now)
	return nil
}

// rewind goes back to the last batch that the store has. Later batches will be sent again; those that were dropped are
// lost.
func (o *outbox) rewind(last uint64, st *Stats) error {
	o.acked = slices.IndexFunc(o.batches, func(nb *numberedBatch) bool { return nb.batch.Seq > last })
	if o.acked < 0 {
		o.acked = len(o.batches)
	}
	st.Lost += o.dropSums(last)
	for _, nb := range o.batches[o.acked:] {
		if nb.applied {
			st.Resent++
		}
	}
	o.position = last
	if o.gaps++; o.gaps > maxGaps {
		return fmt.Errorf("partition %d: the store has batch %d of writer %s and accepts none that follows it", o.partition, last,
			o.writer)
	}
	return nil
}

// evict drops batches that were acknowledged keepAcked ago and not lost since.
func (o *outbox) evict(now time.Time) {
	n := 0
	for n < o.acked && now.Sub(o.batches[n].at) >= o.keepAcked {
		o.sums = append(o.sums, sum{o.batches[n].batch.Seq, o.batches[n].hits - o.batches[n].refused})
		n++
	}
	o.batches, o.acked = slices.Delete(o.batches, 0, n), o.acked-n
	for len(o.sums) > maxSums {
		o.sums[1].hits += o.sums[0].hits
		o.sums = o.sums[1:]
	}
}

// dropSums removes the sums of batches after last, and returns their hits. The oldest sum may be of many batches;
// dropSums counts the share after last, which is exact if the store has lost all batches, else an estimate.
func (o *outbox) dropSums(last uint64) (hits uint64) {
	for n := len(o.sums) - 1; n >= 0 && o.sums[n].seq > last; n-- {
		s := &o.sums[n]
		if n == 0 && last > 0 {
			high, low := bits.Mul64(s.hits, s.seq-last)
			share, _ := bits.Div64(high, low, s.seq)
			s.seq, s.hits = last, s.hits-share
			return hits + share
		}
		hits += s.hits
		o.sums = o.sums[:n]
	}
	return hits
}

// add adds hits to a cell, up to history.MaxTotal, and returns the number of excess hits.
func (o *outbox) add(c cell, hits uint64) (excess uint64) {
	if o.pending == nil {
		o.pending = make(map[cell]uint64)
	}
	room := history.MaxTotal - o.pending[c]
	o.pending[c] += min(hits, room)
	return hits - min(hits, room)
}

// giveUp empties the outbox. It returns the number of hits that were never sent, of those that were not acknowledged
// and may or may not have been counted, and of those that were acknowledged and may still be lost.
func (o *outbox) giveUp() (dropped, lost, acked uint64) {
	for _, hits := range o.pending {
		dropped += hits
	}
	for _, nb := range o.batches[o.acked:] {
		lost += nb.hits - nb.refused
	}
	for _, nb := range o.batches[:o.acked] {
		acked += nb.hits - nb.refused
	}
	o.pending, o.batches, o.acked = nil, nil, 0
	return dropped, lost, acked
}
