-- fixed_window: the count of one epoch-aligned window in one field, its number and its hits.

local function fixed_window()
	local Fixed = {}

	function Fixed:load(now)
		local live, bucket, hits = floor(now / self.width), 0, 0
		local value = call('HGET', key, self.name)
		if value then
			bucket, hits = from_bytes('<I7I7', value)
		end
		-- A window later than now's is moved into it: the clock stepped back.
		self.bucket, self.held = live, bucket >= live and hits or 0
		self.changed, self.grown = bucket ~= live and hits > 0, false
	end

	function Fixed:add(_, hits)
		if self.held == 0 then
			self.grown, self.lasted = true, 0
		end
		self.held, self.changed = min(MAX_COUNT, self.held + hits), true
	end

	function Fixed:take_back(_, hits)
		self.held, self.changed = self.held - hits, true
	end

	function Fixed:hold()
		return (self.bucket + 1) * self.width
	end

	function Fixed:lasts()
		return self.held > 0 and self:hold() or 0
	end

	function Fixed:save()
		write(self.name, to_bytes('<I7I7', self.bucket, self.held))
	end

	return Fixed
end
