package server

import (
	"github.com/weirproxy/weir/server/rls"
)

// ruleBehaviours are the behaviours of rules' settings other than limits.
var ruleBehaviours = []behaviour{{
	name: "a shadow rule counts, and is OK with 0 left", rules: `
- {key: user, shadow_mode: true, message: no, rate_limit: {requests_per_unit: 1, unit: hour}}
`,
	steps: []step{
		{ask: "user=ann", want: "OK | OK 1/HOUR, 0 left, 1h0m0s"},
		{ask: "user=ann addend:3", want: "OK | OK 1/HOUR, 0 left, 1h0m0s"},
	},
	recorded: "shop user 1 within 3 shadow",
}, {
	name: "quotas refuse a request only if all are over, and say that they are", rules: `
- {key: user, quota_mode: true, rate_limit: {requests_per_unit: 1, unit: hour}}
- {key: team, quota_mode: true, rate_limit: {requests_per_unit: 2, unit: hour}}
- {key: closed, rate_limit: {requests_per_unit: 0, unit: hour}}
`,
	steps: []step{
		{ask: "user=x + team=x", want: "OK | OK 1/HOUR, 0 left, 1h0m0s | OK 2/HOUR, 1 left, 1h0m0s"},
		{ask: "user=x + team=x", want: "OK | OVER_LIMIT 1/HOUR, 0 left, 1h0m0s | OK 2/HOUR, 0 left, 1h0m0s"},
		{ask: "user=x + team=x", want: "OVER_LIMIT | OVER_LIMIT 1/HOUR, 0 left, 1h0m0s | OVER_LIMIT 2/HOUR, 0 left, 1h0m0s"},
		{ask: "user=x + nobody=x", want: "OVER_LIMIT | OVER_LIMIT 1/HOUR, 0 left, 1h0m0s | OK"},
		{ask: "team=y + closed=x", want: "OVER_LIMIT | OK 2/HOUR, 1 left, 1h0m0s | OVER_LIMIT 0/HOUR, 0 left, 1h0m0s"},
	},
}, {
	name: "what is no limit is no quota, and who refuses has the word", rules: `
- {key: small, quota_mode: true, message: small is spent, rate_limit: {requests_per_unit: 0, unit: hour}}
- {key: large, quota_mode: true, rate_limit: {requests_per_unit: 9, unit: hour}}
- {key: tried, quota_mode: true, shadow_mode: true, rate_limit: {requests_per_unit: 0, unit: hour}}
- {key: gift, quota_mode: true, rate_limit: {unlimited: true}}
- {key: open, rate_limit: {requests_per_unit: 9, unit: hour}}
- {key: closed, message: closed, rate_limit: {requests_per_unit: 0, unit: hour}}
`,
	steps: []step{
		{ask: "small=x + tried=x", want: "OK | OVER_LIMIT 0/HOUR, 0 left, 1h0m0s | OK 0/HOUR, 0 left, 1h0m0s"},
		{ask: "small=x + gift=x", want: `OVER_LIMIT | OVER_LIMIT 0/HOUR, 0 left, 1h0m0s | OK, 4294967295 left | "small is spent"`},
		{ask: "small=x + open=x", want: `OVER_LIMIT | OVER_LIMIT 0/HOUR, 0 left, 1h0m0s | OK 9/HOUR, 8 left, 1h0m0s | "small is spent"`},
		{ask: "small=x + large=x + closed=x",
			want: `OVER_LIMIT | OVER_LIMIT 0/HOUR, 0 left, 1h0m0s | OK 9/HOUR, 8 left, 1h0m0s | OVER_LIMIT 0/HOUR, 0 left, 1h0m0s | "closed"`},
	},
}, {
	name: "what is replaced is no limit and does not count", rules: replacingRules,
	steps: []step{
		{ask: "plan=gold + user=ann", want: "OK | OK 9/HOUR gold, 8 left, 1h0m0s | OK"},
		{ask: "user=ann + plan=gold", want: "OK | OK | OK 9/HOUR gold, 7 left, 1h0m0s"},
		{ask: "user=ann", want: "OK | OK 1/HOUR user, 0 left, 1h0m0s"},
	},
	recorded: "shop plan=gold 2 within; shop user 1 within",
}, {
	name: "an unlimited rule replaces, and is replaced", rules: replacingRules,
	steps: []step{
		{ask: "plan=free + user=ann", want: "OK | OK, 4294967295 left | OK"},
		{ask: "plan=ruin + plan=free + user=ann", want: "OK | OK 9/HOUR, 8 left, 1h0m0s | OK | OK"},
	},
}, {
	name: "what is replaced replaces all the same: two that replace each other are both gone", rules: replacingRules,
	steps: []step{{ask: "left=x + right=x + last=x", want: "OK | OK | OK | OK"}},
}, {
	name: "of several limits those are replaced that are named, and any may replace", rules: `
- {key: all, rate_limits: [{requests_per_unit: 0, unit: minute, name: a}, {requests_per_unit: 0, unit: hour, name: b}]}
- {key: one, rate_limits: [{requests_per_unit: 0, unit: minute, name: c}, {requests_per_unit: 5, unit: hour, name: b}]}
- {key: vip, rate_limits: [{requests_per_unit: 9, unit: minute, replaces: [{name: a}]}, {requests_per_unit: 99, unit: hour, replaces: [{name: b}]}]}
`,
	steps: []step{
		{ask: "all=x + vip=x", want: "OK | OK | OK 9/MINUTE, 8 left, 1m0s"},
		{ask: "one=x + vip=x", want: "OVER_LIMIT | OVER_LIMIT 0/MINUTE c, 0 left, 1m0s | OK 9/MINUTE, 7 left, 1m0s"},
		{ask: "all=x", want: "OVER_LIMIT | OVER_LIMIT 0/MINUTE a, 0 left, 1h0m0s"},
	},
	recorded: "shop all 1 over; shop one 1 over; shop vip 2 within",
}, {
	name: "metadata of what passes: the first of a name holds, structs are merged, lists are not", answers: rls.Options{DynamicMetadata: true}, rules: sayingRules,
	steps: []step{
		{ask: "a=x + b=x", want: `OK | OK 9/HOUR, 8 left, 1h0m0s | OK 9/HOUR, 8 left, 1h0m0s | {"l":[1],"s":{"x":1,"y":2}}`},
		{ask: "a=x", want: `OK | OK 9/HOUR, 7 left, 1h0m0s | {"l":[1],"s":{"x":1}}`},
		{ask: "closed=x + b=x", want: `OVER_LIMIT | OVER_LIMIT 0/HOUR, 0 left, 1h0m0s | OK 9/HOUR, 7 left, 1h0m0s | {"l":[2],"s":{"x":3,"y":2}}`},
		{ask: "free=x", want: "OK | OK, 4294967295 left"},
		{ask: "trial=x", want: `OK | OK 0/HOUR, 0 left, 1h0m0s | {"trial":"over"}`},
	},
}, {
	name: "detailed_metric leaves a rule its metadata", answers: rls.Options{DynamicMetadata: true}, rules: sayingRules,
	steps: []step{{ask: "detailed=x", want: `OK | OK 9/HOUR, 8 left, 1h0m0s | {"m":1}`}},
}}

const replacingRules = `
- {key: user, rate_limit: {requests_per_unit: 1, unit: hour, name: user}}
- {key: plan, value: gold, rate_limit: {requests_per_unit: 9, unit: hour, name: gold, replaces: [{name: user}]}}
- {key: plan, value: free, rate_limit: {unlimited: true, name: free, replaces: [{name: user}]}}
- {key: plan, value: ruin, rate_limit: {requests_per_unit: 9, unit: hour, replaces: [{name: free}]}}
- {key: left, rate_limit: {requests_per_unit: 9, unit: hour, name: left, replaces: [{name: right}]}}
- {key: right, rate_limit: {requests_per_unit: 9, unit: hour, name: right, replaces: [{name: left}, {name: last}]}}
- {key: last, rate_limit: {requests_per_unit: 9, unit: hour, name: last}}
`

const sayingRules = `
- {key: a, metadata: {l: [1], s: {x: 1}}, rate_limit: {requests_per_unit: 9, unit: hour}}
- {key: b, metadata: {l: [2], s: {x: 3, y: 2}}, rate_limit: {requests_per_unit: 9, unit: hour}}
- {key: closed, metadata: {z: 1}, rate_limit: {requests_per_unit: 0, unit: hour}}
- {key: detailed, detailed_metric: true, metadata: {m: 1}, rate_limit: {requests_per_unit: 9, unit: hour}}
- {key: trial, shadow_mode: true, metadata: {trial: over}, rate_limit: {requests_per_unit: 0, unit: hour}}
- {key: free, rate_limit: {unlimited: true}}
`
