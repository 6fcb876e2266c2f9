-- A question, as AppendArg packs it: operation, hits, a part about leases (or none), and limits. A count may ask for a lease:
-- the wanted hits, the largest share of the rest, less abandoned hits, and an identity for a state that has none. A refund may
-- settle a lease: its hits, the unused ones, the moment of its grant, and the identity of its state. A limit has: algorithm,
-- whether it charges denied hits, the requests that fit at once, window, width of the finest buckets, the name of its field,
-- and for each level, finest first, the buckets of a chunk. A token bucket has no levels, and instead of the width the requests
-- that leak in a window.
--
-- A limit has the functions of its algorithm. It loads what a key holds, changes and saves it, and then serves the next key:
--
--   load(now)             reads the hits that count now, and returns their number
--   refund(hits)          removes the newest hits; so many must count
--   settle(lease)         ends a lease: removes unused hits from the bucket in which they were charged, and returns how
--                         many. Only windows lease
--   leased()              returns how many hits are leased and not settled
--   count(now, hits, granted)
--                         counts hits, as many as there is room for. The last ones, granted, belong to a lease: no refund
--                         takes them before their bucket has ended. It returns the hits that then count; the field to write,
--                         if any, or ERASED; and until when the key had to last for the loaded hits, false if unchanged.
--                         It puts changed chunks.
--   hold(keep)            returns the first moment at which at most keep hits still count; more must count now
--   lasts()               returns until when the key must last for the hits; 0 without hits
--   look                  how many hits must fit for a look to pass
--   aligned                 true if windows begin at fixed moments of the clock, even while nothing counts

local MAX_CACHED = 300 -- most cached questions, and most cached sets of limits

local algorithms = {} -- by their numbers in Go: functions that give a limit its functions

-- later returns an algorithm that is made at its first use.
local function later(make)
	local made
	return function(limit)
		made = made or make()
		made(limit)
	end
end

local questions, asked = {}, 0
local remembered, sets = {}, 0

local function limits_of(packed)
	local limits = {}
	local count, at = from_bytes('<B', packed)
	for i = 1, count do
		local l = {}
		local algorithm
		algorithm, l.always, l.requests, l.window, l.width, l.name, l.fans, at =
			from_bytes('<BBI7I7I7Bc0Bc0', packed, at)
		l.rate, l.look, l.always = l.width, 1, l.always == 1
		algorithms[algorithm](l)
		limits[i] = l
	end
	return limits
end

-- question returns the parsed question of a check, from a cache if possible.
local function question(packed)
	local known = questions[packed]
	if known then
		return known
	end
	local op, hits = from_bytes('<BI7', packed)
	local lease, rest
	if op < LEASE then
		rest = sub(packed, 9)
	else
		lease = {}
		op, rest, lease.state = op - LEASE, sub(packed, 37), sub(packed, 30, 36)
		if op == COUNT then
			lease.want, lease.share, lease.abandoned = from_bytes('<I7I7I7', packed, 9)
		else
			lease.granted, lease.unused, lease.moment = from_bytes('<I7I7I7', packed, 9)
		end
	end
	local limits = remembered[rest]
	if not limits then
		limits = limits_of(rest)
		if sets == MAX_CACHED then
			remembered, sets = {}, 0
		end
		remembered[rest], sets = limits, sets + 1
	end
	known = {limits = limits, op = op, lease = lease, more = op == COUNT and min(hits, MAX_COUNT) or 0,
		less = op == REFUND and hits or 0, size = op == COUNT and hits or op == REFUND and 0 or nil}
	if lease then -- not cached: the next question with a lease differs
		return known
	end
	if asked == MAX_CACHED then
		questions, asked = {}, 0
	end
	questions[packed], asked = known, asked + 1
	return known
end
