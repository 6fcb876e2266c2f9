-- sliding_window: buckets on several levels, and a running sum beside them.
--
-- The buckets of a level stand in chunks, one for each bucket of the level above; fifteen of the coarsest level make a
-- chunk, too. A header holds the hits in the chunks, their oldest and newest finest bucket, how far old chunks have
-- been swept away, and the live bucket, which goes into the chunks only when it is over: most checks read and write
-- nothing but the header.
--
-- A coarse bucket is written once, when the newest bucket leaves it: until then its finer ones tell. It stays as it is
-- when its first buckets leave the window: whoever counts from the oldest bucket on begins on the finest level. So the
-- coarse buckets that hold the oldest or the newest bucket are not read, and a hit that comes or goes changes one
-- chunk.
--
-- What is left over is never read, and so need not be removed at once: buckets before the oldest, the chunk of a bucket
-- that counts nothing, chunks of the coarsest level that do not lie between the oldest and the newest. What stands in a
-- chunk behind the newest is zero. A chunk begins with zeros when the newest bucket enters it.
--
-- Here is what nearly every check needs. What is rare is in wide_window.

local function sliding_window()
	local NAMES = 100 -- names of chunks that are remembered
	local Sliding = setmetatable({}, {__index = wide_window})

	function Sliding:load(now)
		local header = call('HGET', key, self.name)
		self.changed, self.grown = false, false
		self.now_at = floor(now / self.width)
		if not header then
			self.total, self.oldest, self.newest, self.swept, self.at, self.live, self.held = 0, 0, 0, 0, 0, 0, 0
			return
		end
		local total, oldest, newest, swept, at, live = from_bytes('<I7I7I7I7I7I7', header)
		self.total, self.oldest, self.newest, self.swept, self.at, self.live = total, oldest, newest, swept, at, live
		local now_at, from = self.now_at, floor((now - self.window) / self.width)
		if live > 0 and (at < from or at > now_at) or total > 0 and (oldest < from or newest > now_at) then
			self:move(now_at, from)
		end
		self.held = self.total + self.live
	end

	-- move drops what has left the window, and moves what is later than now into now's bucket.
	function Sliding:move(now_at, from)
		self.changed = true
		if self.live > 0 and self.at < from then
			self.total, self.live = 0, 0
		elseif self.live > 0 and self.at > now_at then
			self.at = now_at
		end
		if self.total > 0 and self.newest > now_at then
			self:fold(now_at)
		end
		if self.total > 0 and self.newest < from then
			self.total = 0
		elseif self.total > 0 and self.oldest < from then
			self:drop(from)
		end
	end

	-- drop forgets the buckets before the finest bucket from.
	function Sliding:drop(from)
		local name, begin = self:chunk(1, self.oldest)
		local level = self.levels[1]
		local fan = level.fan
		if from < begin + fan then
			local chunk = get(name) or broken()
			local first = some(chunk, fan, from - begin)
			if first then
				self.total = self.total - sum(chunk, fan, self.oldest - begin, from - begin)
				self.oldest = begin + first
				return
			end
		end
		self.total = self.total - self:count(self.oldest, from)
		self.oldest = self:seek(1, from)
	end

	-- chunk is the name of the chunk of a level that holds a finest bucket, and the first bucket that it holds.
	function Sliding:chunk(level, finest)
		level = (self.levels or self:layout())[level]
		local number = floor(finest / level.span)
		local name = level.names[number]
		if not name then
			if level.named == NAMES then
				level.names, level.named = {}, 0
			end
			name = level.name .. to_bytes('<I4', number)
			level.names[number], level.named = name, level.named + 1
		end
		return name, number * level.span
	end

	-- layout says for each level how many finest buckets one of its buckets holds, and one of its chunks, and how many of
	-- its buckets a chunk has.
	function Sliding:layout()
		local levels, per = {}, 1
		for i = 1, #self.fans do
			local fan = byte(self.fans, i)
			levels[i] = {per = per, fan = fan, span = per * fan, name = self.name .. i, names = {}, named = 0}
			per = per * fan
		end
		self.levels = levels
		return levels
	end

	function Sliding:leaves(finest)
		return (finest + 1) * self.width + self.window
	end

	function Sliding:add(_, hits)
		hits = min(hits, MAX_COUNT - self.held)
		if hits == 0 then
			return
		end
		local at, now_at = self.at, self.now_at
		if self.live == 0 or at ~= now_at then
			self.lasted = self.held > 0 and self:lasts() or 0
			if self.live > 0 then
				self:flush()
			end
			self.at = now_at
			self.grown = self.held == 0 or self.lasted ~= kept(self:leaves(now_at), self.window)
		end
		self.live, self.held, self.changed = self.live + hits, self.held + hits, true
	end

	-- flush moves the live bucket into the chunks.
	function Sliding:flush()
		local at, empty = self.at, self.total == 0
		local name, begin = self:chunk(1, at)
		if empty then
			self:restart(at)
		end
		if self.newest < begin or self.newest == 0 then
			self:enter(at)
		end
		local fan = self.levels[1].fan
		local chunk = get(name) or string.rep('\0', fan)
		local hits = empty and 0 or cell(chunk, fan, at - begin)
		put(name, with(chunk, fan, at - begin, hits + self.live))
		self.total, self.newest, self.live = self.total + self.live, at, 0
	end

	function Sliding:take_back(_, hits)
		local live = min(hits, self.live)
		self.live, self.held, self.changed = self.live - live, self.held - hits, true
		if hits > live then
			self:take_chunks(hits - live)
		end
	end

	function Sliding:hold(keep)
		if keep < self.live then
			return self:leaves(self.at)
		elseif keep == self.held - 1 then
			return self:leaves(self.total > 0 and self.oldest or self.at)
		end
		return self:leaves((self:back(keep - self.live)))
	end

	function Sliding:lasts()
		return self.held > 0 and kept(self:leaves(self.live > 0 and self.at or self.newest), self.window) or 0
	end

	function Sliding:save()
		if self.total > 0 and self.swept + self.fan <= self.oldest then
			self:sweep(SWEEP)
		end
		write(self.name, to_bytes('<I7I7I7I7I7I7', self.total, self.oldest, self.newest, self.swept, self.at, self.live))
	end

	return Sliding
end
