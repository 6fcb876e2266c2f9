package server

import (
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/rls"
)

const fewRules = `
- {key: user, rate_limit: {requests_per_unit: 2, unit: hour, name: few}}
- {key: path, rate_limit: {requests_per_unit: 5, unit: minute}}
- {key: free, rate_limit: {unlimited: true}}
- {key: closed, message: never, rate_limit: {requests_per_unit: 0, unit: day}}
`

// rpcBehaviours are the behaviours of whole requests.
var rpcBehaviours = []behaviour{{
	name: "empty domain: INVALID_ARGUMENT, not UNKNOWN", rules: fewRules,
	steps: []step{{ask: "domain: user=ann", want: "InvalidArgument: rate limit domain must not be empty"}},
}, {
	name: "no descriptors: INVALID_ARGUMENT, not UNKNOWN", rules: fewRules,
	steps: []step{{ask: "nothing", want: "InvalidArgument: rate limit descriptor list must not be empty"}},
}, {
	name: "one status for each descriptor, in their order: without a rule it passes, a limit of 0 blocks all", rules: fewRules,
	steps: []step{
		{ask: "path=/ + nobody=x + user=ann + free=x + hits:1 + user=ann + closed=x + user=ann",
			want: `OVER_LIMIT | OK 5/MINUTE, 4 left, 1m0s | OK | OK 2/HOUR few, 1 left, 1h0m0s | OK, 4294967295 left | OK | OK 2/HOUR few, 0 left, 1h0m0s | OVER_LIMIT 0/DAY, 0 left, 12h0m0s | OVER_LIMIT 2/HOUR few, 0 left, 1h0m0s | "never"`},
	},
}, {
	name: "over is what goes above the limit: the last hit of it has 0 left", rules: fewRules,
	steps: []step{
		{ask: "user=ann", want: "OK | OK 2/HOUR few, 1 left, 1h0m0s"},
		{ask: "user=ann", want: "OK | OK 2/HOUR few, 0 left, 1h0m0s"},
		{ask: "user=ann", want: "OVER_LIMIT | OVER_LIMIT 2/HOUR few, 0 left, 1h0m0s"},
		{ask: "user=bob", want: "OK | OK 2/HOUR few, 1 left, 1h0m0s"},
	},
	recorded: "shop user 3 within 1 over",
}, {
	name: "windows are those of the clock, and the rest of one is told in whole seconds", rules: `
- {key: s, rate_limit: {requests_per_unit: 1, unit: second}}
- {key: m, rate_limit: {requests_per_unit: 1, unit: Minute}}
- {key: h, rate_limit: {requests_per_unit: 1, unit: HOUR}}
- {key: d, rate_limit: {requests_per_unit: 1, unit: day}}
- {key: w, rate_limit: {requests_per_unit: 1, unit: week}}
- {key: mo, rate_limit: {requests_per_unit: 1, unit: month}}
- {key: y, rate_limit: {requests_per_unit: 1, unit: year}}
`,
	steps: []step{
		// 21 November 2026 is day 20,778 since 1970: 2 days into a week, 18 into a month of 30, 338 into a year of 365.
		{at: "12:34:56", ask: "s=x + m=x + h=x + d=x + w=x + mo=x + y=x", want: "OK | OK 1/SECOND, 0 left, 1s | OK 1/MINUTE, 0 left, 4s | " +
			"OK 1/HOUR, 0 left, 25m4s | OK 1/DAY, 0 left, 11h25m4s | OK 1/WEEK, 0 left, 107h25m4s | OK 1/MONTH, 0 left, 275h25m4s | OK 1/YEAR, 0 left, 635h25m4s"},
		{at: "12:34:59", ask: "s=x + m=x", want: "OVER_LIMIT | OK 1/SECOND, 0 left, 1s | OVER_LIMIT 1/MINUTE, 0 left, 1s"},
		{at: "12:35:00", ask: "m=x", want: "OK | OK 1/MINUTE, 0 left, 1m0s"},
	},
}, {
	name: "SHADOW_MODE changes only what is said of the request", rules: fewRules, limits: limit.Options{Shadow: true},
	steps:    []step{{ask: "closed=x + user=ann", want: "OK | OVER_LIMIT 0/DAY, 0 left, 12h0m0s | OK 2/HOUR few, 1 left, 1h0m0s"}},
	recorded: "shop closed 1 shadow; shop user 1 within",
}, {
	name: "QUOTA_MODE makes all quotas, those without a rule included", rules: fewRules, limits: limit.Options{Quota: true},
	steps: []step{
		{ask: "closed=x", want: `OVER_LIMIT | OVER_LIMIT 0/DAY, 0 left, 12h0m0s | "never"`},
		{ask: "closed=x + nobody=x", want: "OK | OVER_LIMIT 0/DAY, 0 left, 12h0m0s | OK"},
		{ask: "closed=x + user=ann", want: "OK | OVER_LIMIT 0/DAY, 0 left, 12h0m0s | OK 2/HOUR few, 1 left, 1h0m0s"},
		{ask: "closed=x + free=x", want: `OVER_LIMIT | OVER_LIMIT 0/DAY, 0 left, 12h0m0s | OK, 4294967295 left | "never"`},
		{ask: "closed=x + path=/ hits:6", want: `OVER_LIMIT | OVER_LIMIT 0/DAY, 0 left, 12h0m0s | OVER_LIMIT 5/MINUTE, 0 left, 1m0s | "never"`},
		{ask: "nobody=x", want: "OK | OK"},
	},
}, {
	name:  "headers speak of the last that is over, unless that is a quota, or else of the least that is left, the first of equals",
	rules: fewRules + "- {key: quota, quota_mode: true, rate_limit: {requests_per_unit: 0, unit: second}}\n", answers: limitHeaders,
	steps: []step{
		{ask: "path=/ + user=ann", want: "OK | OK 5/MINUTE, 4 left, 1m0s | OK 2/HOUR few, 1 left, 1h0m0s | limit: 2 | left: 1 | reset: 3600"},
		{ask: "path=/ hits:3 + user=bob", want: "OK | OK 5/MINUTE, 1 left, 1m0s | OK 2/HOUR few, 1 left, 1h0m0s | limit: 5 | left: 1 | reset: 60"},
		{ask: "nobody=x + free=x", want: "OK | OK | OK, 4294967295 left"},
		{ask: "user=ann + closed=x + path=x hits:6 + user=ann hits:0 + free=x + quota=x", want: `OVER_LIMIT | OK 2/HOUR few, 0 left, 1h0m0s | ` +
			`OVER_LIMIT 0/DAY, 0 left, 12h0m0s | OVER_LIMIT 5/MINUTE, 0 left, 1m0s | OK 2/HOUR few, 0 left, 1h0m0s | OK, 4294967295 left | ` +
			`OVER_LIMIT 0/SECOND, 0 left, 1s | "never" | limit: 5 | left: 0 | reset: 60`},
		{ask: "path=/ + quota=x + user=ann hits:0 + nobody=x", want: "OVER_LIMIT | OK 5/MINUTE, 0 left, 1m0s | " +
			"OVER_LIMIT 0/SECOND, 0 left, 1s | OK 2/HOUR few, 0 left, 1h0m0s | OK | limit: 5 | left: 0 | reset: 60"},
	},
}}

var limitHeaders = rls.Options{Headers: rls.Headers{Response: rls.HeaderNames{Limit: "limit", Remaining: "left", Reset: "reset"}}}

// limitBehaviours are the behaviours of hits, and of overrides.
var limitBehaviours = []behaviour{{
	name: "hits_addend of the request counts for each descriptor without its own, and 0 is 1", rules: fewRules,
	steps: []step{
		{ask: "addend:2 path=/ + user=ann", want: "OK | OK 5/MINUTE, 3 left, 1m0s | OK 2/HOUR few, 0 left, 1h0m0s"},
		{ask: "addend:0 path=/", want: "OK | OK 5/MINUTE, 2 left, 1m0s"},
		{ask: "addend:2 path=x hits:4 + path=y", want: "OK | OK 5/MINUTE, 1 left, 1m0s | OK 5/MINUTE, 3 left, 1m0s"},
	},
}, {
	name: "a descriptor's hits_addend of 0 looks and counts nothing, denied hits count, is_negative_hits gives hits back", rules: fewRules,
	steps: []step{
		{ask: "path=/ hits:0", want: "OK | OK 5/MINUTE, 5 left, 1m0s"},
		{ask: "path=/ hits:5", want: "OK | OK 5/MINUTE, 0 left, 1m0s"},
		{ask: "path=/ hits:0", want: "OK | OK 5/MINUTE, 0 left, 1m0s"},
		{ask: "path=/ hits:1", want: "OVER_LIMIT | OVER_LIMIT 5/MINUTE, 0 left, 1m0s"},
		{ask: "path=/ hits:0", want: "OVER_LIMIT | OVER_LIMIT 5/MINUTE, 0 left, 1m0s"},
		{ask: "path=/ hits:3 refund:", want: "OK | OK 5/MINUTE, 2 left, 1m0s"},
		{ask: "path=/ hits:9 refund:", want: "OK | OK 5/MINUTE, 5 left, 1m0s"},
	},
	recorded: "shop path 5 within 1 over",
}, {
	name: "looks and refunds on an empty key tell the rest of the window", rules: fewRules,
	steps: []step{
		{at: "12:34:56", ask: "path=/ hits:0 + user=ann hits:0", want: "OK | OK 5/MINUTE, 5 left, 4s | OK 2/HOUR few, 2 left, 25m4s"},
		{ask: "path=/ refund: + user=ann hits:3 refund:", want: "OK | OK 5/MINUTE, 5 left, 4s | OK 2/HOUR few, 2 left, 25m4s"},
		{ask: "closed=x hits:0", want: "OK | OK 0/DAY, 0 left, 11h25m4s"},
		{at: "12:35:00", ask: "path=/ hits:0", want: "OK | OK 5/MINUTE, 5 left, 1m0s"},
	},
}, {
	name: "a request's own limit goes before the rule's, and has no name", rules: fewRules,
	steps: []step{
		{ask: "user=ann limit:9/MINUTE", want: "OK | OK 9/MINUTE, 8 left, 1m0s"},
		{ask: "closed=x limit:9/DAY", want: "OK | OK 9/DAY, 8 left, 12h0m0s"},
		{ask: "free=x limit:1/DAY", want: "OK | OK 1/DAY, 0 left, 12h0m0s"},
	},
}, {
	name: "a request's own limit needs a known domain, but no rule", rules: fewRules,
	steps: []step{
		{ask: "nobody=x limit:1/YEAR", want: "OK | OK 1/YEAR, 0 left, 636h0m0s"},
		{ask: "nobody=x limit:1/YEAR", want: "OVER_LIMIT | OVER_LIMIT 1/YEAR, 0 left, 636h0m0s"},
		{ask: "domain:bar nobody=x limit:1/YEAR + user=ann", want: "OK | OK | OK"},
	},
	recorded: "__unknown__ __unmatched__ 2 within; shop __unmatched__ 1 within 1 over",
}, {
	name: "a request's own limit may be of every unit, and of many", rules: fewRules,
	steps: []step{
		{ask: "a=1 limit:3/SECOND + a=2 limit:3/MONTH + a=3 limit:3/WEEK + a=4 limit:3/HOUR times:2", want: "OK | OK 3/SECOND, 2 left, 1s | " +
			"OK 3/MONTH, 2 left, 276h0m0s | OK 3/WEEK, 2 left, 108h0m0s | OK 3/HOUR*2, 2 left, 2h0m0s"},
	},
}, {
	name: "a request's own limit of unit UNKNOWN falls back to the rule's", rules: fewRules,
	steps: []step{
		{ask: "user=ann limit:9/UNKNOWN + nobody=x limit:9/UNKNOWN", want: "OK | OK 2/HOUR few, 1 left, 1h0m0s | OK"},
		{ask: "user=ann limit:9/HOUR times:0", want: "OK | OK 2/HOUR few, 0 left, 1h0m0s"},
	},
}, {
	name: "a request's own limit puts all else of the rule aside", answers: rls.Options{DynamicMetadata: true}, rules: `
- {key: s, shadow_mode: true, metadata: {a: b}, rate_limit: {requests_per_unit: 5, unit: day, name: s, replaces: [{name: any}]}}
- {key: q, quota_mode: true, metadata: {c: d}, rate_limit: {requests_per_unit: 5, unit: day}}
- {key: p, value: a*, share_threshold: true, rate_limit: {requests_per_unit: 5, unit: day}}
- {key: any, rate_limit: {requests_per_unit: 5, unit: day, name: any}}
`,
	steps: []step{
		{ask: "s=x limit:0/DAY + any=x", want: "OVER_LIMIT | OVER_LIMIT 0/DAY, 0 left, 12h0m0s | OK 5/DAY any, 4 left, 12h0m0s"},
		{ask: "q=x limit:0/DAY + q=y", want: `OVER_LIMIT | OVER_LIMIT 0/DAY, 0 left, 12h0m0s | OK 5/DAY, 4 left, 12h0m0s | {"c":"d"}`},
		{ask: "p=a1 limit:5/DAY + p=a2 limit:5/DAY", want: "OK | OK 5/DAY, 4 left, 12h0m0s | OK 5/DAY, 4 left, 12h0m0s"},
		{ask: "s=y + any=y limit:1/DAY", want: `OK | OK 5/DAY s, 4 left, 12h0m0s | OK 1/DAY, 0 left, 12h0m0s | {"a":"b"}`},
	},
}}
