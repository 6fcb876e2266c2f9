package faults_test

import "time"

// rows is the table: the rows of the fault matrix, each with what is broken, for how long, and what may come of it.
// Unless a row says otherwise: two replicas with policy allow on one Redis, 2,000 calls a second (300 in the short
// form) with 20 ms each, on 1,000 cold keys, 10 hot ones and 50 that count everything.
var rows = []row{
	{
		number: "6a", fault: "black hole of packets", on: far, short: 2 * time.Second, long: 30 * time.Second, throughEnvoy: true,
		happens: blackHole, bounds: bounds{recovery: time.Second},
	},
	{
		number: "7", fault: "Redis frozen and back", on: single, short: 1500 * time.Millisecond, long: 5 * time.Second, throughEnvoy: true,
		happens: freeze, bounds: bounds{recovery: time.Second},
	},
	{
		number: "8a", fault: "Redis slow by 5 ms", on: proxied, short: time.Second, long: 10 * time.Second,
		happens: slowBy(5 * time.Millisecond), bounds: bounds{recovery: time.Second},
	},
	{
		number: "9", fault: "reply dropped after execution", on: proxied, short: 2 * time.Second, long: 20 * time.Second,
		happens: loseReplies, bounds: bounds{recovery: time.Second},
	},
	{
		number: "10a", fault: "restart empty", on: single, short: 500 * time.Millisecond, long: 5 * time.Second, throughEnvoy: true,
		happens: restartEmpty, bounds: bounds{states: 2, forgets: true, recovery: time.Second},
	},
}
