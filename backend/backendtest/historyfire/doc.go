// Package historyfire proves the history under fire. Writers, downsampling jobs, servers and owners of a file are
// processes that are killed as kill -9 does, at each step of a batch and of a roll and at random instants, while a
// clock that all of them share goes by hours a second and hits come in that are up to weeks late. What each writer
// recorded, sent and had acknowledged stands in a ledger that outlives it, so that the tests know of each series, to
// the integer, what it must hold: all that landed, once, and of what was recorded nothing is missing but what a killed
// writer had no answer for.
//
// The tests' own binary is the writers and jobs. -kills sets how many kills there are, -seed repeats their choices.
package historyfire
