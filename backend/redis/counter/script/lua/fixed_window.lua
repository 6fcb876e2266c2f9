-- fixed_window: the count of one epoch-aligned window in one field, its number and its hits.

local function fixed_window()
	local Fixed = {}

	function Fixed:load(now)
		local width, held, changed = self.width, 0, false
		local live = (now - now % width) / width
		local value = call('HGET', key, self.name)
		if value then
			local bucket, hits = from_bytes('<I7I7', value)
			held = bucket >= live and hits or 0 -- a window later than now's moves into it: the clock stepped back
			changed = bucket ~= live and hits > 0
		end
		self.live, self.held, self.changed, self.lasted = live, held, changed, false
		return held
	end

	function Fixed:add(_, hits)
		local held = self.held
		if held == 0 then
			self.lasted = 0
		end
		held = held + hits
		self.held, self.changed = held < MAX_COUNT and held or MAX_COUNT, true
	end

	function Fixed:take_back(_, hits)
		self.held, self.changed = self.held - hits, true
	end

	function Fixed:hold()
		return (self.live + 1) * self.width
	end

	function Fixed:lasts()
		return self.held > 0 and (self.live + 1) * self.width or 0
	end

	function Fixed:save()
		return to_bytes('<I7I7', self.live, self.held)
	end

	return Fixed
end
