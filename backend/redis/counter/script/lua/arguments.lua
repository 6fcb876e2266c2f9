-- What a check asks, as counter.AppendArg packs it: its operation, its hits, then for each limit the algorithm, whether
-- it charges though denied, the requests that fit at once, window, the width of its finest buckets, its name among the
-- key's fields, and how many buckets a chunk of each level has, finest first. A token bucket has no levels, and in place of
-- the width the requests that leak in a window.

local function arguments(packed)
	local op, hits, count, at = from_bytes('<BI7B', packed)
	local limits = {}
	for i = 1, count do
		local algorithm, always, requests, window, width, name, fans
		algorithm, always, requests, window, width, name, fans, at = from_bytes('<BBI7I7I7Bc0Bc0', packed, at)
		limits[i] = {algorithm = algorithm, always = always, requests = requests, window = window, width = width,
			name = name, fans = fans}
	end
	return op, hits, limits
end
