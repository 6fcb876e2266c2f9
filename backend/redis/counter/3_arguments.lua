-- What a check asks, as counter.AppendArg packs it: its operation, its hits, then for each limit the algorithm, whether
-- it charges though denied, requests, window, the width of its finest buckets, how many of these a chunk has, its name
-- among the key's fields, and the widths of its levels, finest first.

local function arguments(packed)
	local op, hits, count, at = from_bytes('<BI7B', packed)
	local limits = {}
	for i = 1, count do
		local algorithm, always, requests, window, width, fan, name, levels
		algorithm, always, requests, window, width, fan, name, levels, at =
			from_bytes('<BBI7I7I7BBc0Bc0', packed, at)
		limits[i] = {algorithm = algorithm, always = always, requests = requests, window = window, width = width,
			fan = fan, name = name, levels = levels}
	end
	return op, hits, limits
end
