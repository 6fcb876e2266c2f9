-- What a check asks, as AppendArg packs it: its operation, its hits, and its limits. Of each limit: the algorithm, whether it
-- charges though denied, the requests that fit at once, window, the width of its finest buckets, its name among the key's
-- fields, and how many buckets a chunk of each level has, finest first. A token bucket has no levels, and in place of the
-- width the requests that leak in a window.
--
-- A limit is an object of its algorithm. It is loaded with what a key holds for it, changed, and saved, and then serves the
-- next key:
--
--   load(now)             reads what counts now: held
--   add(now, hits)        counts as many of the hits as there is room for
--   take_back(now, hits)  takes away the newest hits, of which there are so many
--   hold(keep)            returns the first moment at which at most keep of the hits held still count; there are more now
--   lasts()               returns the moment until which the key must last for the hits held, 0 if there are none
--   save(now)             writes its fields, if it has changed; if it has grown, it lasted until an earlier moment before

local MOST = 1000 -- sets of limits that are remembered

local algorithms = {[SLIDING] = sliding_window, [FIXED] = fixed_window, [LOG] = sliding_log, [BUCKET] = token_bucket}
local classes = {}
local remembered, sets = {}, 0

local function limits_of(packed)
	local limits = {}
	local count, at = from_bytes('<B', packed)
	for i = 1, count do
		local l = {levels = false}
		l.algorithm, l.always, l.requests, l.window, l.width, l.name, l.fans, at =
			from_bytes('<BBI7I7I7Bc0Bc0', packed, at)
		l.rate, l.fan = l.width, byte(l.fans, 1)
		local class = classes[l.algorithm]
		if not class then
			class = {__index = algorithms[l.algorithm]()}
			classes[l.algorithm] = class
		end
		limits[i] = setmetatable(l, class)
	end
	return limits
end

-- question returns the operation, the hits and the limits of a check. It makes the same limits once.
local function question(packed)
	local op, hits = from_bytes('<BI7', packed)
	local rest = sub(packed, 9)
	local limits = remembered[rest]
	if not limits then
		limits = limits_of(rest)
		if sets == MOST then
			remembered, sets = {}, 0
		end
		remembered[rest], sets = limits, sets + 1
	end
	return op, hits, limits
end
