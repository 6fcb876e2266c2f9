package export

import (
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// collect drains the hits that were recorded in the interval that ends now. They count in the minute in which the
// interval began.
func (e *Exporter) collect(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cells = e.countCells()
	if e.intervalStart.IsZero() { // it never ran
		e.intervalStart = now
	}
	minute := max(0, e.intervalStart.Unix()/60)
	e.intervalStart = e.lastFlush(now)
	e.config.Drain(now, func(id history.ID, hits uint64) {
		e.stats.Recorded += hits
		e.add(cell{id, minute}, hits)
	})
}

func (e *Exporter) countCells() (cells int) {
	for _, o := range e.outboxes {
		cells += o.waiting()
	}
	return cells
}

// add adds pending hits: if half of MaxCells are used, in cells of an hour; if all are used, it drops hits of new
// cells.
func (e *Exporter) add(c cell, hits uint64) {
	o := e.outboxes[c.id.Partition()]
	if e.cells >= e.config.MaxCells/2 {
		c.minute -= c.minute % 60
	}
	if _, exists := o.pending[c]; !exists {
		if e.cells >= e.config.MaxCells {
			e.stats.Dropped[Full] += hits
			return
		}
		e.cells++
	}
	e.stats.Dropped[TooLarge] += o.add(c, hits)
}
