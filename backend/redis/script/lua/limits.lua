-- A spec is a check as AppendArg packs it: operation, hits, a lease (or none), and limits. The fields are those of
-- backend.Check:
--
--   lease of a count      Want, Share, Abandoned, and a State for a key that has none
--   lease of a refund     Granted, Unused, ChargedAt and State, to settle it
--   limit                 algorithm; whether it charges denied hits; the hits that fit at once; window; width of the finest
--                         buckets (of a token bucket: the hits that leak in a window); the name of its field; and for each
--                         level, finest first, the buckets of a chunk
--
-- A limit has the functions of its algorithm. Its state is that of one key at a time: load replaces it.
--
--   load(now)             reads the hits that count now, and returns their number
--   refund(hits)          removes the newest hits; so many must count
--   settle(lease)         ends a lease: removes unused hits from the bucket in which they were charged, and returns how
--                         many. Only windows lease
--   leased()              returns how many hits are leased and not settled
--   count(now, hits, granted)
--                         counts hits, as many as there is room for. The last ones, granted, belong to a lease: no refund
--                         takes them before their bucket has ended. It returns the hits that then count; the field to write,
--                         if any, or ERASED; and the expiry that the loaded hits needed, false if it is unchanged.
--                         It puts changed chunks.
--   falls_to(most)        returns the first moment at which at most that many hits still count; more must count now
--   expiry()              returns when the key may expire, given its hits; 0 without hits
--   look_hits             how many hits must fit for a look to pass
--   aligned               true if windows begin at fixed moments of the clock, even while nothing counts

local MAX_CACHED = 300 -- most cached specs, and most cached sets of limits

local algorithms = {} -- by the number of the algorithm in Go: a function that adds the algorithm's functions to a limit

-- lazily returns an algorithm that make makes at its first use.
local function lazily(make)
	local made
	return function(limit)
		made = made or make()
		made(limit)
	end
end

local specs, cached_specs = {}, 0
local limit_sets, cached_sets = {}, 0

local function limits_of(packed)
	local limits = {}
	local count, at = from_bytes('<B', packed)
	for i = 1, count do
		local l = {}
		local algorithm
		algorithm, l.charges_denied, l.requests, l.window, l.width, l.name, l.fans, at =
			from_bytes('<BBI7I7I7Bc0Bc0', packed, at)
		l.rate, l.look_hits, l.charges_denied = l.width, 1, l.charges_denied == 1
		algorithms[algorithm](l)
		limits[i] = l
	end
	return limits
end

-- parse_spec returns the parsed spec of a check, from a cache if possible.
local function parse_spec(packed)
	local known = specs[packed]
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
	local limits = limit_sets[rest]
	if not limits then
		limits = limits_of(rest)
		if cached_sets == MAX_CACHED then
			limit_sets, cached_sets = {}, 0
		end
		limit_sets[rest], cached_sets = limits, cached_sets + 1
	end
	known = {limits = limits, op = op, lease = lease, charge = op == COUNT and min(hits, MAX_COUNT) or 0,
		refund = op == REFUND and hits or 0, size = op == COUNT and hits or op == REFUND and 0 or nil}
	if lease then -- not cached: the next spec with a lease differs
		return known
	end
	if cached_specs == MAX_CACHED then
		specs, cached_specs = {}, 0
	end
	specs[packed], cached_specs = known, cached_specs + 1
	return known
end
