package export

import (
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// narrow, wide and widest are how many minutes cells hold: the next where there is no room for narrower ones.
const narrow, wide, widest = 1, 5, 60

// collect drains what was recorded in the interval that ends now, and stamps it with the minute in which it began.
func (e *Exporter) collect(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cells = e.countCells()
	if e.cells < e.c.MaxCells/2 {
		e.width = narrow
	}
	if e.begin.IsZero() { // it never ran
		e.begin = now
	}
	minute := max(0, e.begin.Unix()/60)
	e.begin = e.lastFlush(now)
	e.c.Drain(now, func(id history.ID, hits uint64) {
		e.stats.Recorded += hits
		e.add(now, cell{id, minute}, hits)
	})
}

func (e *Exporter) countCells() (cells int) {
	for _, o := range e.outboxes {
		cells += o.waiting()
	}
	return cells
}

// add lets hits wait. If there are too many cells, those that have not been sent are merged to 5 minutes, then to
// hours; after that, hits that need another cell are dropped.
func (e *Exporter) add(now time.Time, c cell, hits uint64) {
	o := e.outboxes[c.id.Partition()]
	for {
		c.minute -= c.minute % e.width
		_, there := o.pending[c]
		switch {
		case there:
		case e.cells < e.c.MaxCells:
			e.cells++
		case e.width == widest:
			e.stats.Dropped[Full] += hits
			return
		default:
			e.widen(now)
			continue
		}
		e.stats.Dropped[TooLarge] += o.add(now, c, hits)
		return
	}
}

func (e *Exporter) widen(now time.Time) {
	if e.width == narrow {
		e.width = wide
	} else {
		e.width = widest
	}
	for _, o := range e.outboxes {
		e.stats.Dropped[TooLarge] += o.widen(now, e.width)
	}
	e.cells = e.countCells()
}
