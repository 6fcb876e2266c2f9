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
	maxSums = 1024 // most sums of batches that are no longer kept, to report what a store has lost of them
	maxGaps = 3    // times in a row that a store may miss what it was just sent, before it is given time
)

// outbox holds what an exporter has for one partition: cells that wait, then batches on their way, then those that the
// store may still forget. Its fields are guarded by the exporter's lock.
type outbox struct {
	partition history.Partition
	writer    string
	keep      time.Duration // that an acknowledged batch is kept
	seq       uint64        // of the newest batch
	position  uint64        // the last batch that the store is known to have
	pending   map[cell]uint64
	batches   []*numberedBatch // oldest first: batches[:acked] are acknowledged, the rest is to be sent
	acked     int
	sums      []sum     // of batches before these, oldest first; the first one is of many once there are more than maxSums
	lastHeard time.Time // of the store, or when the first batch was made

	due, busy, probe bool // there is something to send; a goroutine sends; the store is to be asked for its position
	failures, gaps   int  // in a row
	retryAt          time.Time
}

// cell names hits of a series that wait, by their minute or the first of their hour.
type cell struct {
	id     history.ID
	minute int64
}

// numberedBatch is a batch that has been made, and what is known of it.
type numberedBatch struct {
	batch   history.Batch // but for After
	hits    uint64
	refused uint64
	applied bool      // the store has had it
	at      time.Time // when the store last acknowledged it
}

// sum is the hits that the store counted of the batches after the sum before it, up to seq.
type sum struct{ seq, hits uint64 }

// waiting returns how many cells have not been acknowledged.
func (o *outbox) waiting() int {
	n := len(o.pending)
	for _, nb := range o.batches[o.acked:] {
		n += len(nb.batch.Increments)
	}
	return n
}

// next returns what to send: a batch that was not acknowledged, else a new one, else a question for the position.
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

// makeBatch makes a batch of what waits.
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

// changeWriter restarts the numbers of batches at 1, under a new name: the store may have removed the position of a writer
// that was silent for so long, and would seem to have lost hits. Batches without an answer are given up.
func (o *outbox) changeWriter(st *Stats) {
	for _, nb := range o.batches[o.acked:] {
		st.Lost += nb.hits - nb.refused
	}
	o.writer, o.seq, o.position, o.batches, o.acked, o.sums, o.probe = rand.Text(), 0, 0, nil, 0, nil, false
}

// noteAnswer records the store's answer to a batch. Its error means that the store keeps losing batches.
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
		st.Refused += r.Refused - nb.refused // it may have been applied before, in a server that is gone
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

// rewind goes back to the last batch that the store has. Those after it are sent again if they are kept, or lost.
func (o *outbox) rewind(last uint64, st *Stats) error {
	o.acked = slices.IndexFunc(o.batches, func(nb *numberedBatch) bool { return nb.batch.Seq > last })
	if o.acked < 0 {
		o.acked = len(o.batches)
	}
	st.Lost += o.lose(last)
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

// evict drops batches that the store still has so long after it acknowledged them.
func (o *outbox) evict(now time.Time) {
	n := 0
	for n < o.acked && now.Sub(o.batches[n].at) >= o.keep {
		o.sums = append(o.sums, sum{o.batches[n].batch.Seq, o.batches[n].hits - o.batches[n].refused})
		n++
	}
	o.batches, o.acked = slices.Delete(o.batches, 0, n), o.acked-n
	for len(o.sums) > maxSums {
		o.sums[1].hits += o.sums[0].hits
		o.sums = o.sums[1:]
	}
}

// lose forgets the sums of batches after last, which are not kept any more, and returns their hits. Of the oldest sum,
// which may be of many batches, it counts the share that is after last: all of it if the store has lost everything,
// else an estimate.
func (o *outbox) lose(last uint64) (hits uint64) {
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

// add adds hits to a cell, and returns those that are beyond what one can hold.
func (o *outbox) add(c cell, hits uint64) (beyond uint64) {
	if o.pending == nil {
		o.pending = make(map[cell]uint64)
	}
	room := history.MaxTotal - o.pending[c]
	o.pending[c] += min(hits, room)
	return hits - min(hits, room)
}

// giveUp empties the outbox. Hits that were never sent are dropped; those without an answer may have been counted, and
// are lost for all that is known. Kept are those that the store acknowledged and may still forget.
func (o *outbox) giveUp() (dropped, lost, kept uint64) {
	for _, hits := range o.pending {
		dropped += hits
	}
	for _, nb := range o.batches[o.acked:] {
		lost += nb.hits - nb.refused
	}
	for _, nb := range o.batches[:o.acked] {
		kept += nb.hits - nb.refused
	}
	o.pending, o.batches, o.acked = nil, nil, 0
	return dropped, lost, kept
}
