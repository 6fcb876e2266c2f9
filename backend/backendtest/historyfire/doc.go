// Package historyfire proves the history in Redis under fire. Writers and downsampling jobs are processes that are
// killed as kill -9 does, at each step of a batch and of a roll and at random instants, while servers are killed,
// forget, or hand slots over, and hits come in that are up to weeks late. What each writer sent and had acknowledged
// stands in a ledger that outlives it, so that the tests know of each series, to the integer, what it must hold: all
// that was counted, once, and of what was acknowledged nothing is missing.
//
// The tests' own binary is the writers and jobs. -kills sets how many kills there are, -seed repeats their choices. In
// the short form a single server and a cluster are under fire. A file under fire is filehistory's
// TestKilledProcessLeavesEachHitOnce.
package historyfire
