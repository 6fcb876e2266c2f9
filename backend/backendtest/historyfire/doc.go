// Package historyfire proves the history in Redis under fire. Writers and downsampling jobs are killed at each step of
// a batch and of a roll and at random instants, while servers are killed, forget, or hand slots over, and hits come in
// that are up to weeks late. A writer or a job that is killed is to the servers what a process is that ends by kill -9:
// all its connections are closed at once, in the midst of what it does. What each writer sent and had acknowledged is
// remembered, so that the tests know of each series, to the integer, what it must hold: all that was counted, once, and
// of what was acknowledged nothing is missing.
//
// -kills sets how many kills there are, -seed repeats their choices. In the short form a single server and a cluster
// are under fire. A file under fire is filehistory's TestAKilledProcessLeavesEveryHitOnce.
package historyfire
