-- What a check asks, as AppendArg packs it: its operation, its hits, what it asks about leases, if anything, and its
-- limits. A count asks for a lease: the hits wanted, the share of what remains that it may be, less the hits abandoned,
-- and the identity that the state is to have if it has none. A refund settles one: its hits, those unused, the moment of
-- its grant, and the identity of its state. Of each limit: the algorithm,
-- whether it charges though denied, the requests that fit at once, window, the width of its finest buckets, its name
-- among the key's fields, and how many buckets a chunk of each level has, finest first. A token bucket has no levels,
-- and in place of the width the requests that leak in a window.
--
-- A limit has functions of its algorithm. It is loaded with what a key holds for it, changed, and saved, and then
-- serves the next key:
--
--   load(now)             reads what counts now, and returns it
--   refund(hits)       takes away the newest hits, of which there are so many
--   settle(lease)         ends a lease: takes what is unused out of the bucket in which it was charged. It returns how
--                         many hits that were. Only windows lease
--   leased()              returns how many of the hits are leased and not settled
--   count(now, hits, granted)
--                         counts as many of the hits as there is room for. The last ones are granted by a lease: no
--                         refund takes them before their bucket is over. It returns what then counts; its field, if
--                         that is to be written, or ERASED; and until when the key lasted for what was loaded, false
--                         if that has not changed. Chunks are put.
--   hold(keep)            returns the first moment at which at most keep of the hits still count; there are more now
--   lasts()               returns the moment until which the key must last for the hits, 0 if there are none
--   look                  how many hits must fit for a look to pass
--   turns                 true if it begins anew at moments of the clock, also while nothing counts

local MOST = 300 -- questions that are remembered, and sets of limits

local algorithms = {} -- by their numbers in Go: each gives a limit its functions

-- later is an algorithm that is made when a limit first has it.
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

-- question returns what a check asks. The same is made once.
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
		if sets == MOST then
			remembered, sets = {}, 0
		end
		remembered[rest], sets = limits, sets + 1
	end
	known = {limits = limits, op = op, lease = lease, more = op == COUNT and min(hits, MAX_COUNT) or 0,
		less = op == REFUND and hits or 0, size = op == COUNT and hits or op == REFUND and 0 or nil}
	if lease then -- nobody asks the same again
		return known
	end
	if asked == MOST then
		questions, asked = {}, 0
	end
	questions[packed], asked = known, asked + 1
	return known
end
