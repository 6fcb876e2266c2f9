-- sliding_log: every instant at which something was counted, and the total of the limit's hits up to it.
--
-- What counts is the difference of two totals, the last one and the one before the first instant that has not left. So
-- nothing depends on how soon those that have left are removed. Totals go round at 2^53; what counts at the same time is
-- less.
--
-- Instants stand in chunks, which are numbered: a total, then an instant and the total up to it, again and again, 7 bytes
-- each. The last chunk, the tail, stands in the header until it is full, so most checks read and write the header alone.
-- It tells of the chunks from first on; others are left over, from low to before first and from last to before high, and
-- are removed by and by.

local function sliding_log()
	local ROUND = 9007199254740992
	local FULL = 7 + 32 * 14 -- bytes of a chunk
	local SWEEP = 8          -- chunks that one check removes
	local HEADER = 2 * 7 + 4 * 5
	local Log = {}

	function Log:load(now)
		self.changed, self.grown = false, false
		local header = call('HGET', key, self.name)
		if not header then
			self.base, self.oldest, self.first, self.last, self.low, self.high = 0, 0, 0, 0, 0, 0
			self.tail, self.newest, self.total, self.held = '\0\0\0\0\0\0\0', 0, 0, 0
			return
		end
		local base, oldest
		base, oldest, self.first, self.last, self.low, self.high = from_bytes('<I7I7I5I5I5I5', header)
		local tail = sub(header, HEADER + 1)
		local newest, total = 0, base
		if #tail > 7 then
			newest, total = from_bytes('<I7I7', tail, #tail - 13)
		end
		self.base, self.oldest, self.tail, self.newest, self.total = base, oldest, tail, newest, total
		self.held = (total - base) % ROUND
		if self.held > 0 and (newest > now or oldest <= now - self.window) then
			self:move(now)
		end
	end

	-- move lets go of what has left the window, and makes one instant, now, of all that are later: the clock stepped back.
	function Log:move(now)
		self.changed = true
		if self.newest > now and self.oldest >= now then
			self.first, self.oldest = self.last, now
			self.tail = to_bytes('<I7I7I7', self.base, now, self.total)
		elseif self.newest > now then
			local number, at, chunk = self:seek(now - 1, ROUND)
			self.last = number
			self.tail = sub(chunk, 1, 14 * at - 7) .. to_bytes('<I7I7', now, self.total)
		end
		self.newest = min(self.newest, now)
		local left = now - self.window
		if self.newest <= left then
			self:clear()
		elseif self.oldest <= left then
			local number, at, chunk = self:seek(left, ROUND)
			self.first = number
			self.base, self.oldest = from_bytes('<I7I7', chunk, 14 * at - 13)
			self.held = (self.total - self.base) % ROUND
		end
	end

	function Log:clear()
		self.tail, self.base = to_bytes('<I7', self.total), self.total
		self.held, self.first = 0, self.last
	end

	function Log:name_of(number)
		return self.name .. ':' .. to_bytes('<I5', number)
	end

	-- seek returns the first of the instants that count which is later than a moment, or up to which so many hits count: the
	-- number of its chunk, its place and the chunk.
	function Log:seek(moment, hits)
		local oldest, base = self.oldest, self.base
		local function before(chunk, at)
			local time, total = from_bytes('<I7I7', chunk, 14 * at - 6)
			return time < oldest or time <= moment and (total - base) % ROUND < hits
		end
		local function chunk_of(number)
			return number == self.last and self.tail or get(self:name_of(number)) or broken()
		end
		local low, high, number = self.first, self.last, self.first -- often it is in the first one
		while low < high do
			local chunk = chunk_of(number)
			if before(chunk, (#chunk - 7) / 14) then
				low = number + 1
			else
				high = number
			end
			number = floor((low + high) / 2)
		end
		local chunk = chunk_of(low)
		local from, to = 1, (#chunk - 7) / 14
		while from < to do
			local middle = floor((from + to) / 2)
			if before(chunk, middle) then
				from = middle + 1
			else
				to = middle
			end
		end
		return low, from, chunk
	end

	function Log:add(now, hits)
		hits = min(hits, MAX_COUNT - self.held)
		if hits == 0 then
			return
		end
		self.lasted = self.held > 0 and self:lasts() or 0
		local total = (self.total - (ROUND - hits)) % ROUND
		if self.held == 0 then
			self.oldest = now
		end
		if self.held > 0 and self.newest == now then
			self.tail = sub(self.tail, 1, -8) .. to_bytes('<I7', total)
		elseif #self.tail < FULL then
			self.tail = self.tail .. to_bytes('<I7I7', now, total)
		else
			put(self:name_of(self.last), self.tail)
			self.last = self.last + 1
			self.high = max(self.high, self.last)
			self.tail = to_bytes('<I7I7I7', self.total, now, total)
		end
		self.newest, self.total, self.held = now, total, self.held + hits
		self.changed, self.grown = true, self:lasts() ~= self.lasted
	end

	-- take_back takes away the newest hits: all instants behind the one that has the last hit left, and a part of that.
	function Log:take_back(_, hits)
		self.changed = true
		if hits == self.held then
			self:clear()
			return
		end
		self.held = self.held - hits
		self.total = (self.total - hits) % ROUND
		local number, at, chunk = self:seek(MAX_COUNT, self.held)
		self.newest = from_bytes('<I7', chunk, 14 * at - 6)
		self.last, self.tail = number, sub(chunk, 1, 14 * at) .. to_bytes('<I7', self.total)
	end

	function Log:hold(keep)
		if keep == self.held - 1 then
			return self.oldest + self.window
		end
		local _, at, chunk = self:seek(MAX_COUNT, self.held - keep)
		return from_bytes('<I7', chunk, 14 * at - 6) + self.window
	end

	function Log:lasts()
		return self.held > 0 and kept(self.newest + self.window, self.window) or 0
	end

	-- sweep removes some of the chunks that are left over.
	function Log:sweep()
		for _ = 1, SWEEP do
			if self.low < self.first then
				put(self:name_of(self.low), false)
				self.low = self.low + 1
			elseif self.high > self.last then
				self.high = self.high - 1
				put(self:name_of(self.high), false)
			end
		end
	end

	function Log:save()
		if self.low < self.first or self.high > self.last then
			self:sweep()
		end
		if self.held == 0 and self.low == self.first and self.high == self.last then
			erase(self.name)
			return
		end
		write(self.name, to_bytes('<I7I7I5I5I5I5', self.base, self.oldest, self.first, self.last, self.low, self.high)
			.. self.tail)
	end

	return Log
end
