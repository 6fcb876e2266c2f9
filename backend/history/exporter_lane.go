package history

import (
	"crypto/rand"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"
)

const (
	// keepSent is how long a batch is kept after the store has acknowledged it: a failover may bring up a server that never
	// had it.
	keepSent = time.Minute
	// maxSums is how many of the batches before them are known by their sums, to say what a store has lost of them.
	maxSums = 1024
	// maxGaps is how often in a row a store may say that it misses what it was just sent, before it is given time.
	maxGaps = 3
)

// lane is what an exporter has for one partition: cells that wait, then batches on their way, then those that the store
// may still forget. Its fields are guarded by the exporter's lock.
type lane struct {
	partition Partition
	writer    string
	seq       uint64 // of the newest batch
	position  uint64 // the last batch that the store is known to have
	pending   map[cell]uint64
	sent      []*sentBatch // oldest first: sent[:ahead] are acknowledged, the rest is to be sent
	ahead     int
	sums      []sum // of batches before sent, oldest first; the first one is of many once there are more than maxSums
	heard     time.Time
	since     time.Time // since when something has been waiting; zero if nothing is

	due, probe, busy bool
	failures, gaps   int // in a row
	retryAt          time.Time
}

// cell is hits of a series that wait, by the first minute that they may belong to.
type cell struct {
	id     ID
	minute int64
}

// sentBatch is a batch that has been made, and what is known of it.
type sentBatch struct {
	batch   Batch // but for After
	hits    uint64
	refused uint64
	landed  bool // the store has had it
	at      time.Time
}

// sum is the hits that the store counted of the batches after the sum before it, up to seq.
type sum struct{ seq, hits uint64 }

// waiting is how many cells have not been acknowledged.
func (l *lane) waiting() int {
	n := len(l.pending)
	for _, s := range l.sent[l.ahead:] {
		n += len(s.batch.Increments)
	}
	return n
}

// next is what to send: what has been sent and is not acknowledged, else a new batch, else a question for the position.
func (l *lane) next(now time.Time, st *ExporterStats) (b Batch, any bool) {
	if l.seq > 0 && now.Sub(l.heard) > ForgetAfter/2 {
		l.renew(st)
	}
	if l.ahead == len(l.sent) && len(l.pending) > 0 {
		l.cut(now)
	}
	switch {
	case l.ahead < len(l.sent):
		b = l.sent[l.ahead].batch
	case l.probe:
		b.Writer = l.writer
	default:
		return b, false
	}
	b.After = l.position
	return b, true
}

// cut makes a batch of what waits.
func (l *lane) cut(now time.Time) {
	l.seq++
	s := &sentBatch{batch: Batch{Writer: l.writer, Seq: l.seq}}
	for c, hits := range l.pending {
		if len(s.batch.Increments) == MaxBatch {
			break
		}
		s.batch.Increments = append(s.batch.Increments, Increment{ID: c.id, Minute: c.minute, Hits: hits})
		s.hits += hits
		delete(l.pending, c)
	}
	if l.seq == 1 {
		l.heard = now
	}
	l.sent = append(l.sent, s)
}

// renew begins a new series of numbers: the store may have forgotten the position of a writer that it has not heard for so
// long, and would take that for hits that it has lost. What has no answer by then is given up.
func (l *lane) renew(st *ExporterStats) {
	for _, s := range l.sent[l.ahead:] {
		st.Lost += s.hits - s.refused
	}
	l.writer, l.seq, l.position, l.sent, l.ahead, l.sums, l.probe = rand.Text(), 0, 0, nil, 0, nil, false
}

// answer takes the store's answer to a batch. Its error means that the store does not keep what it says.
func (l *lane) answer(now time.Time, b Batch, r Receipt, st *ExporterStats) error {
	l.heard = now
	if b.Seq == 0 {
		l.probe = false
		if r.Last < l.position {
			return l.rewind(now, r.Last, st)
		}
		l.forget(now)
		return nil
	}
	if r.Last < b.Seq {
		return l.rewind(now, r.Last, st)
	}
	l.gaps = 0
	s := l.sent[l.ahead]
	s.at = now
	if r.Landing == Landed {
		st.Clamped += r.Clamped
		st.Refused += r.Refused - s.refused // it may have landed before, in a server that is gone
		s.refused = r.Refused
	}
	if !s.landed {
		s.landed = true
		st.Landed += s.hits - s.refused
	}
	st.Batches++
	l.position = b.Seq
	l.ahead++
	l.forget(now)
	if l.ahead == len(l.sent) && len(l.pending) == 0 {
		l.since = time.Time{}
	}
	return nil
}

// dropBatch gives up the batch that was sent, and returns its hits. The next one follows the one before it.
func (l *lane) dropBatch() (hits uint64) {
	hits = l.sent[l.ahead].hits
	l.sent = slices.Delete(l.sent, l.ahead, l.ahead+1)
	return hits
}

// rewind goes back to the last batch that the store has. What is kept of those after it is sent again, the rest is lost.
func (l *lane) rewind(now time.Time, last uint64, st *ExporterStats) error {
	l.ahead = slices.IndexFunc(l.sent, func(s *sentBatch) bool { return s.batch.Seq > last })
	if l.ahead < 0 {
		l.ahead = len(l.sent)
	}
	st.Lost += l.lose(last)
	for _, s := range l.sent[l.ahead:] {
		if s.landed {
			st.Resent++
		}
	}
	l.position = last
	if l.since.IsZero() && l.ahead < len(l.sent) {
		l.since = now
	}
	if l.gaps++; l.gaps > maxGaps {
		return fmt.Errorf("partition %d: the store has batch %d of %s and takes none that follows it", l.partition, last, l.writer)
	}
	return nil
}

// forget lets go of batches that the store still has a minute after it acknowledged them.
func (l *lane) forget(now time.Time) {
	n := 0
	for n < l.ahead && now.Sub(l.sent[n].at) >= keepSent {
		l.sums = append(l.sums, sum{l.sent[n].batch.Seq, l.sent[n].hits - l.sent[n].refused})
		n++
	}
	l.sent, l.ahead = slices.Delete(l.sent, 0, n), l.ahead-n
	if len(l.sums) > maxSums {
		half := l.sums[:maxSums/2]
		for _, s := range half[:len(half)-1] {
			half[len(half)-1].hits += s.hits
		}
		l.sums = slices.Delete(l.sums, 0, len(half)-1)
	}
}

// lose is the hits of batches after last that are not kept any more. Of the oldest sum, which may be of many batches, it
// takes the share that is after last: all of it if the store has lost everything, else an estimate.
func (l *lane) lose(last uint64) (hits uint64) {
	for n := len(l.sums) - 1; n >= 0 && l.sums[n].seq > last; n-- {
		s := &l.sums[n]
		if n == 0 && last > 0 {
			high, low := bits.Mul64(s.hits, s.seq-last)
			share, _ := bits.Div64(high, low, s.seq)
			s.seq, s.hits = last, s.hits-share
			return hits + share
		}
		hits += s.hits
		l.sums = l.sums[:n]
	}
	return hits
}

// add adds hits to a cell, and returns those that are beyond what one can hold.
func (l *lane) add(now time.Time, c cell, hits uint64) (beyond uint64) {
	if l.since.IsZero() {
		l.since = now
	}
	if l.pending == nil {
		l.pending = make(map[cell]uint64)
	}
	room := MaxTotal - l.pending[c]
	l.pending[c] += min(hits, room)
	return hits - min(hits, room)
}

// widen merges the cells that have not been sent to wider ones, and returns the hits that these cannot hold.
func (l *lane) widen(now time.Time, minutes int64) (beyond uint64) {
	old := l.pending
	l.pending = make(map[cell]uint64, len(old))
	for c, hits := range old {
		c.minute -= c.minute % minutes
		beyond += l.add(now, c, hits)
	}
	return beyond
}

// giveUp empties the lane. Hits that were never sent are dropped; those without an answer may have landed, and are lost
// for all that is known.
func (l *lane) giveUp() (dropped, lost uint64) {
	for hits := range maps.Values(l.pending) {
		dropped += hits
	}
	for _, s := range l.sent[l.ahead:] {
		lost += s.hits - s.refused
	}
	l.pending, l.sent, l.ahead, l.since = nil, nil, 0, time.Time{}
	return dropped, lost
}
