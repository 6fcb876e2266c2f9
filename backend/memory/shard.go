package memory

import (
	"container/heap"
	"sync"

	"github.com/weirproxy/weir/backend/window"
)

// shard holds the keys of one lock. Each key stands in one of two queues: open, by the moment it expires, or spent,
// by the moment it reopens. A hit that only moves that moment later leaves the queue as it is: an entry's due may be
// too early, never too late, and whoever takes an entry from the front puts it right first. Whoever changes entries
// reads the clock under the lock, or a goroutine that had to wait would seem to step back in time.
type shard struct {
	mu      sync.Mutex
	entries map[string]*entry
	open    queue
	spent   queue
}

func (sh *shard) insert(e *entry) {
	sh.entries[e.key] = e
	sh.enqueue(e, e.reopens != 0)
}

func (sh *shard) enqueue(e *entry, spent bool) {
	e.spent = spent
	e.due = e.moment()
	heap.Push(sh.queue(e), e)
}

func (sh *shard) queue(e *entry) *queue {
	if e.spent {
		return &sh.spent
	}
	return &sh.open
}

// moment returns the true moment that the entry's queue is ordered by.
func (e *entry) moment() window.Instant {
	if e.spent {
		return e.reopens
	}
	return e.expires
}

// requeue puts an entry right whose moment became earlier.
func (sh *shard) requeue(e *entry) {
	if m := e.moment(); m < e.due {
		e.due = m
		heap.Fix(sh.queue(e), int(e.index))
	}
}

func (sh *shard) remove(e *entry) {
	delete(sh.entries, e.key)
	heap.Remove(sh.queue(e), int(e.index))
}

// front returns the first entry of a queue, put right; nil if the queue is empty. Entries that stand in the wrong queue
// at now change over on the way.
func (sh *shard) front(q *queue, now window.Instant) *entry {
	for len(*q) > 0 {
		e := (*q)[0]
		if over := e.reopens > now; over != e.spent {
			heap.Remove(q, 0)
			sh.enqueue(e, over)
			continue
		}
		if m := e.moment(); m != e.due {
			e.due = m
			heap.Fix(q, 0)
			continue
		}
		return e
	}
	return nil
}

// expireAtOnce is how many keys expire removes in one hold of the lock.
const expireAtOnce = 256

// expire removes keys in which nothing counts by the clock, expireAtOnce at most, and says how many they were.
func (sh *shard) expire(clock func() window.Instant) int {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := clock()
	n := 0
	for len(sh.spent) > 0 && sh.spent[0].due <= now {
		sh.front(&sh.spent, now)
	}
	for len(sh.open) > 0 && sh.open[0].due <= now && n < expireAtOnce {
		if e := sh.front(&sh.open, now); e != nil && e.expires <= now {
			sh.remove(e)
			n++
		}
	}
	return n
}

// rewind moves what lies after the clock's now into now, in every entry.
func (sh *shard) rewind(clock func() window.Instant) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := clock()
	for _, e := range sh.entries {
		e.rewind(now)
		sh.requeue(e)
	}
}

// queue is a heap of entries, the earliest due first.
type queue []*entry

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due < q[j].due }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = int32(i), int32(j)
}

// Push and Pop are for container/heap.
func (q *queue) Push(x any) {
	e := x.(*entry)
	e.index = int32(len(*q))
	*q = append(*q, e)
}

// Pop takes the last entry, as container/heap wants it.
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
