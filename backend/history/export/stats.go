package export

// DropReason is why hits were dropped before they reached a store.
type DropReason uint8

// The reasons.
const (
	Full        DropReason = iota // too many cells waited
	TooLarge                      // more in one cell than a series can hold in its life
	Shutdown                      // they still waited when the process had to end
	DropReasons = int(Shutdown) + 1
)

// String returns the reason's name in metrics.
func (r DropReason) String() string {
	return [DropReasons]string{"full", "too_large", "shutdown"}[r]
}

// Stats are what an exporter has done so far. All hits are of all series: a hit that is near its limit is one of two
// series.
type Stats struct {
	Recorded uint64              // hits that Drain has yielded
	Applied  uint64              // hits that the store has acknowledged
	Refused  uint64              // hits that the store did not count, as their series is full
	Dropped  [DropReasons]uint64 // hits that were never sent
	Lost     uint64              // hits that the store forgot and that were not kept any more, or that it never answered
	// Unreplicated is the hits of the last minute before the end that the store acknowledged, but that may not be replicated:
	// the most that a failover can lose afterwards.
	Unreplicated uint64

	Resent  uint64 // batches that the store had acknowledged and forgotten
	Waiting int    // cells, that is minutes of series, that are not acknowledged
	Down    bool   // the store accepts no hits, at least in some partitions
}

// Stats returns those of this moment. It may be called at any time, by any goroutine.
func (e *Exporter) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	st := e.stats
	st.Waiting, st.Down = e.countCells(), e.down
	return st
}
