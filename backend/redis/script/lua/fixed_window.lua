-- fixed_window: the count of one epoch-aligned window in one field, its number and its hits.

local function fixed_window(limit)
	local name, width = limit.name, limit.width
	local live, held, changed

	function limit.load(now)
		local value = call('HGET', key, name)
		live, held, changed = (now - now % width) / width, 0, false
		if value then
			local bucket, hits = from_bytes('<I7I7', value)
			held = bucket >= live and hits or 0 -- a window later than now's moves into it: the clock stepped back
			changed = bucket ~= live and hits > 0
		end
		return held
	end

	function limit.take_back(_, hits)
		held, changed = held - hits, true
		return held
	end

	function limit.hold()
		return (live + 1) * width
	end

	function limit.lasts()
		return held > 0 and (live + 1) * width or 0
	end

	function limit.count(_, hits)
		local lasted = held == 0 and hits > 0 and 0
		held = held + hits
		if held > MAX_COUNT then
			held = MAX_COUNT
		end
		return held, (changed or hits > 0) and to_bytes('<I7I7', live, held), lasted
	end
end
