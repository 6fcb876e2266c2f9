package faults_test

import "time"

// rows is the table: the rows of the fault matrix, each with what is broken, for how long, and what may come of it.
// Unless a row says otherwise: two replicas, 300 calls a second (2,000 in the long form) with 20 ms each, on 1,000 cold
// keys, 10 hot ones and 48 that count everything, a quarter of each for every failure policy; sliding windows of a
// minute; each key is admitted no more than its limit, and the stores decide about every key.
//
// Where a row says that no server is away, a call has time for a machine that is slow. What a store does without a loss
// while slots move, or when Redis forgets weir's code, is proven to the hit in backend/redis.
var rows = []row{
	{
		number: "1", fault: "a ring's node killed", quick: true, on: ring,
		short: 2 * time.Second, long: 20 * time.Second,
		happens: kill, bounds: bounds{states: 2, losesState: true, recovery: 2500 * time.Millisecond},
	},
	{
		number: "3a", fault: "a cluster's primary killed", on: cluster, short: 4 * time.Second, long: 20 * time.Second,
		happens: kill, bounds: bounds{states: 2, losesState: true, recovery: 3 * time.Second},
	},
	{
		number: "5", fault: "a partition, both sides count", on: proxied, window: 2 * time.Second,
		short: 2500 * time.Millisecond, long: 20 * time.Second,
		happens: split, bounds: bounds{states: 2, losesState: true, converges: true, recovery: time.Second},
	},
	{
		number: "7", fault: "Redis frozen and back", quick: true, on: single,
		short: time.Second, long: 5 * time.Second,
		happens: freeze, bounds: bounds{gone: true, recovery: time.Second, breaks: true},
	},
	{
		number: "9a", fault: "replies lost after execution", quick: true, on: proxied,
		short: 1500 * time.Millisecond, long: 20 * time.Second,
		happens: loseReplies, bounds: bounds{recovery: time.Second},
	},
	{
		number: "10a", fault: "Redis killed and back empty", quick: true, on: single,
		short: time.Second, long: 5 * time.Second,
		happens: restartEmpty, bounds: bounds{gone: true, states: 2, losesState: true, recovery: time.Second},
	},
	{
		number: "11a", fault: "Redis down at the start", quick: true, on: downAtFirst, beginsDown: true,
		short: time.Second, long: 10 * time.Second,
		happens: appear, bounds: bounds{gone: true, recovery: time.Second},
	},
	{
		number: "12a", fault: "Redis full", quick: true, on: single,
		short: time.Second, long: 10 * time.Second,
		happens: fillRedis, bounds: bounds{gone: true, recovery: time.Second},
	},
	{
		number: "20", fault: "SIGTERM, clients leave late", quick: true, on: single, budget: clientTimeout,
		happens: drainOne, bounds: bounds{rollout: true},
	},
	{
		number: "21", fault: "back to the release before, and to this again", onlyLong: true, on: withBefore, budget: clientTimeout,
		happens: rollOver, bounds: bounds{rollout: true},
	},
	{
		number: "31", fault: "a byte of twenty in Redis's replies damaged", on: proxied,
		short: 1500 * time.Millisecond, long: 20 * time.Second,
		happens: spoil, bounds: bounds{recovery: time.Second},
	},
}
