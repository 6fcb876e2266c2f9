-- The functions that a sliding window rarely needs: for changes in more than one chunk, and after the clock has stepped
-- back. They are made when one of them is first used.

local NAMES = 100 -- most cached names of chunks of a level

-- levels_of returns for each level: per and span, the number of finest buckets in a bucket and in a chunk of the level;
-- and fan, the number of its buckets in a chunk.
local function levels_of(name, fans)
	local levels, per = {}, 1
	for i = 1, #fans do
		local fan = byte(fans, i)
		levels[i] = {per = per, fan = fan, span = per * fan, name = name .. i, names = {}, named = 0}
		per = per * fan
	end
	return levels
end

-- chunk_at returns the name of the chunk of a level that holds a finest bucket, and the first bucket that it holds.
local function chunk_at(level, bucket)
	local span, names = level.span, level.names
	local number = (bucket - bucket % span) / span
	local name = names[number]
	if not name then
		if level.named == NAMES then
			names, level.named = {}, 0
			level.names = names
		end
		name = level.name .. to_bytes('<I4', number)
		names[number], level.named = name, level.named + 1
	end
	return name, number * span
end

local slow_path = {}

local function make_functions()
	local SWEEP = 4     -- most chunks that a check removes
	local RESTART = 64  -- most chunks that a check removes when a window begins anew: all those of a window of two levels
	local LOOK_AT = 3   -- most chunks that a check reads for each removed one
	local EVICTED = 1000 -- most coarsest chunks that a check removes when the clock steps back; of 15 days each they span 41 years
	local SlowPath = {}

	-- index returns the index of the cell that counts a finest bucket, in the chunk of a level that begins with the bucket
	-- begin.
	local function index(level, begin, finest)
		return floor((finest - begin) / level.per)
	end

	-- chunk_of returns the chunk of a level that contains a finest bucket, nil if no hit in it counts, and its first
	-- bucket. The chunks of the oldest and the newest bucket exist; others exist if the bucket above them has hits.
	function SlowPath:chunk_of(level, finest)
		local name, begin = chunk_at(self.levels[level], finest)
		local above = self.levels[level + 1]
		if above and begin > self.oldest and begin + self.levels[level].span <= self.newest then
			local chunk, first = self:chunk_of(level + 1, finest)
			if not chunk or cell(chunk, above.fan, index(above, first, finest)) == 0 then
				return nil, begin
			end
		end
		return get(name), begin
	end

	-- drop subtracts the buckets before the finest bucket "from" from the sum.
	function SlowPath:drop(from)
		self.total = self.total - self:count(self.oldest, from)
		self.oldest = self:seek(1, from)
	end

	-- count adds up the finest buckets from one up to, but not including, another; both lie between the oldest and the
	-- newest. It uses whole coarse buckets, and finer ones on both sides of them.
	function SlowPath:count(from, to)
		local levels, hits, level = self.levels, 0, 1
		while from < to do
			while level < #levels and from % levels[level + 1].per == 0 and from + levels[level + 1].per <= to do
				level = level + 1
			end
			while from + levels[level].per > to do
				level = level - 1
			end
			local chunk, begin = self:chunk_of(level, from)
			local per = levels[level].per
			local stop = min(begin + levels[level].span, to - to % per)
			if chunk then
				hits = hits + sum(chunk, levels[level].fan, (from - begin) / per, (stop - begin) / per)
			end
			from = stop
		end
		return hits
	end

	-- seek returns the beginning of the first bucket of a level with hits, from a finest bucket on. At the end of a chunk
	-- it climbs a level, at a bucket with hits it descends. The newest coarse bucket has hits, though it is not written
	-- yet. most bounds the number of chunks that it reads; at the bound it returns how far it came.
	function SlowPath:seek(level, from, most)
		local levels, lowest = self.levels, level
		while from <= self.newest do
			if most == 0 then
				return from
			end
			most = most and most - 1
			local chunk, begin = self:chunk_of(level, from)
			local span, per = levels[level].span, levels[level].per
			local at = chunk and first_nonzero(chunk, levels[level].fan, floor((from - begin) / per)) or nil
			if level > 1 and self.newest < begin + span then
				at = min(at or span, index(levels[level], begin, self.newest))
			end
			if at then
				from = max(from, begin + at * per)
				if level == lowest then
					return from
				end
				level = level - 1
			elseif chunk ~= nil and level < #levels and from == begin and from > self.oldest then
				inconsistent() -- the bucket above has hits, and none of these has
			else
				from, level = begin + span, min(level + 1, #levels)
			end
		end
		inconsistent()
	end

	-- skip_newest skips the newest hits of the chunks. It returns the finest bucket with the newest hit that is not
	-- skipped, and how many hits of that bucket are skipped. The chunks must have more hits than these.
	function SlowPath:skip_newest(hits)
		local levels, level, finest = self.levels, 1, self.newest
		while finest >= self.oldest do
			local chunk, begin = self:chunk_of(level, finest)
			local stop = index(levels[level], begin, finest) + 1
			local all = chunk and sum(chunk, levels[level].fan, 0, stop) or 0
			if all <= hits then
				hits, finest, level = hits - all, begin - 1, min(level + 1, #levels)
			else
				local at
				at, hits = skip_newest(chunk, levels[level].fan, stop, hits)
				if level == 1 then
					return begin + at, hits
				end
				finest, level = begin + (at + 1) * levels[level].per - 1, level - 1
			end
		end
		inconsistent()
	end

	-- fold moves the hits of all buckets after the finest bucket now_at into it, and makes it the live one.
	function SlowPath:fold(now_at)
		local later = self.total
		if self.oldest < now_at then
			later = later - self:count(self.oldest, now_at)
		end
		self:remove_from_chunks(later)
		self.at, self.live = now_at, self.live + later
	end

	-- remove_from_chunks removes the newest hits from the chunks.
	function SlowPath:remove_from_chunks(hits)
		if hits == self.total then
			self.total = 0
			return
		end
		local finest, part = self:skip_newest(hits)
		local name, begin = chunk_at(self.levels[1], finest)
		local fan, chunk, at = self.levels[1].fan, get(name), finest - begin
		put(name, set_cell(chunk, fan, at, cell(chunk, fan, at) - part))
		self.total = self.total - hits
		self:truncate(finest)
	end

	-- truncate makes a finest bucket the newest. It zeroes everything after it in its chunks, so that these can grow
	-- again, and removes the garbage that it meets. The rest stays until the key ends.
	function SlowPath:truncate(finest)
		for i, level in ipairs(self.levels) do
			local name, begin = chunk_at(self.levels[i], finest)
			local mine = get(name)
			local at = index(level, begin, finest)
			for behind = at + 1, i > 1 and level.fan - 1 or 0 do
				if cell(mine, level.fan, behind) > 0 then
					put(chunk_at(self.levels[i - 1], begin + behind * level.per), false)
				end
			end
			put(name, zero_after(mine, level.fan, at))
			local newest = chunk_at(self.levels[i], self.newest)
			if newest ~= name then
				put(newest, false)
			end
		end
		self:evict(finest)
		self.newest = finest
	end

	-- evict removes the coarsest chunks after a finest bucket, so that they do not count when the window gets there again.
	function SlowPath:evict(finest)
		local top = #self.levels
		local span = self.levels[top].span
		local first = max(finest + span, self.swept, self.newest - EVICTED * span)
		for number = floor(first / span), floor(self.newest / span) do
			put(chunk_at(self.levels[top], number * span), false)
		end
	end

	-- restart prepares for the first bucket of an empty window. It removes the chunks of the old window; if these are too
	-- many for one check, the next checks remove the rest.
	function SlowPath:restart(at)
		if self.newest > 0 then
			self.oldest = self.newest
			if self:sweep(RESTART) then
				for level = 1, #self.levels do
					put(chunk_at(self.levels[level], self.newest), false)
				end
				self.newest = 0
			elseif self.newest > at then -- the clock stepped back
				self:evict(at)
				self.newest = 0
			end
		end
		if self.newest == 0 then
			self.swept = at
			-- Many chunks will come: a long value makes Redis index the fields now, while they are few.
			if #self.levels > 2 then
				put(self.name .. '0', string.rep(' ', 65))
			end
		end
		self.oldest = at
	end

	-- enter prepares the chunks for a finest bucket that becomes the newest: it begins the chunks that contain it, and
	-- writes the coarser bucket above each chunk that is complete.
	function SlowPath:enter(at)
		local follows = self.total > 0 or self.newest > 0 -- bucket 0, of 1970, does not count as newest if there are no hits
		for i, level in ipairs(self.levels) do
			local name, begin = chunk_at(self.levels[i], at)
			if follows and self.newest >= begin then
				return -- coarser levels go on as well
			end
			local above = self.levels[i + 1]
			if follows and above then
				local left = get((chunk_at(self.levels[i], self.newest)))
				local upper, first = chunk_at(self.levels[i + 1], self.newest)
				local hits = min(MAX_COUNT, left and sum(left, level.fan, 0, level.fan) or 0)
				local chunk = get(upper) or string.rep('\0', above.fan)
				put(upper, set_cell(chunk, above.fan, index(above, first, self.newest), hits))
			end
			put(name, string.rep('\0', level.fan))
		end
	end

	-- sweep removes chunks that lie wholly before the oldest bucket, at most most, by default SWEEP. It returns whether
	-- none are left. The buckets of the second level tell which chunks exist.
	function SlowPath:sweep(most)
		local levels = self.levels
		local span = levels[1].span
		local last = floor(self.oldest / span)
		for _ = 1, most or SWEEP do
			local swept = self.swept
			if floor(swept / span) >= last then
				return true
			end
			put(chunk_at(self.levels[1], swept), false)
			local from = (floor(swept / span) + 1) * span
			if levels[2] then
				from = self:seek(2, from, LOOK_AT)
				for level = 2, #levels do
					local passed, begin = chunk_at(self.levels[level], swept)
					if begin + levels[level].span <= from then
						put(passed, false)
					end
				end
			end
			self.swept = from
		end
		return floor(self.swept / span) >= last
	end

	return SlowPath
end

local functions

function slow_path.__index(_, name)
	functions = functions or make_functions()
	return functions[name]
end
