package export

// DropReason is why hits were dropped before they reached a store.
type DropReason uint8

// The reasons.
const (
	Full        DropReason = iota // too many cells waited
	TooLarge                      // one cell had more hits than a series can count
	Shutdown                      // they still waited when the process ended
	DropReasons = int(Shutdown) + 1
)

// String returns the reason's name in metrics.
func (r DropReason) String() string {
	return [DropReasons]string{"full", "too_large", "shutdown"}[r]
}

// Stats are the totals of an exporter. A hit counts once for each of its series: one that is near its limit has two.
type Stats struct {
	Recorded uint64              // hits that Drain has yielded
	Applied  uint64              // hits that the store has acknowledged
	Refused  uint64              // hits that the store did not count, as their series is full
	Dropped  [DropReasons]uint64 // hits that were never sent
	Lost     uint64              // hits that the store has lost after it was too late to send them again, or never acknowledged
	// Unreplicated is the number of acknowledged hits that may not have been replicated when the exporter was closed: the
	// most that a later failover can lose.
	Unreplicated uint64

	Resent  uint64 // batches that were sent again, as the store had acknowledged and lost them
	Waiting int    // cells (minutes of series) that are not acknowledged
	Down    bool   // the store accepts no hits, at least in some partitions
}

// Stats returns the present totals. It may be called by any number of goroutines.
func (e *Exporter) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	st := e.stats
	st.Waiting, st.Down = e.countCells(), e.down
	return st
}
