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

local Sliding = {}
Sliding.__index = Sliding

local SWEEP = 4    -- chunks that one check sweeps away
local RESTART = 64 -- the same when a window begins anew: all of a window by two levels
local LOOK_AT = 3  -- chunks read in search of one of these
local FORGET = 1000 -- coarsest chunks removed when the clock steps back; one of 15 days each for 41 years

local function sliding_window(fields, l)
	local s = setmetatable({fields = fields, limit = l, width = l.width, window = l.window, total = 0, oldest = 0,
		newest = 0, swept = 0, at = 0, live = 0, changed = false, grown = false, top = false, summed = false}, Sliding)
	local header = fields:get(l.name)
	if header then
		s.total, s.oldest, s.newest, s.swept, s.at, s.live = from_bytes('<I7I7I7I7I7I7', header)
	end
	return s
end

-- layout says for each level how many finest buckets one of its buckets holds, and one of its chunks, and how many of
-- its buckets a chunk has.
function Sliding:layout()
	if self.top then
		return
	end
	local fans = self.limit.fans
	local top, per, span, fan, names, all = #fans, {}, {}, {}, {}, 1
	for level = 1, top do
		per[level], fan[level] = all, byte(fans, level)
		all = all * fan[level]
		span[level], names[level] = all, {}
	end
	self.top, self.per, self.span, self.fan, self.names = top, per, span, fan, names
end

-- chunk is the name of the chunk of a level that holds a finest bucket, and the first bucket that it holds.
function Sliding:chunk(level, finest)
	local span, names = self.span[level], self.names[level]
	local number = floor(finest / span)
	local name = names[number]
	if not name then
		name = self.limit.name .. level .. to_bytes('<I4', number)
		names[number] = name
	end
	return name, number * span
end

-- place is where a finest bucket is counted in a chunk of a level that begins with a finest bucket.
function Sliding:place(level, begin, finest)
	return floor((finest - begin) / self.per[level])
end

-- held returns the chunk of a level that holds a finest bucket, nil if nothing in it counts, and its first bucket. The
-- chunk of the oldest and that of the newest bucket are there. Of others the bucket above tells.
function Sliding:held(level, finest)
	local name, begin = self:chunk(level, finest)
	if level < self.top and begin > self.oldest and begin + self.span[level] <= self.newest then
		local above, first = self:held(level + 1, finest)
		if not above or cell(above, self.fan[level + 1], self:place(level + 1, first, finest)) == 0 then
			return nil, begin
		end
	end
	return self.fields:get(name), begin
end

-- count adds up the finest buckets from one to before another, none of them before the oldest, and all before the
-- newest: whole coarse buckets where there are any, finer ones on both sides of them.
function Sliding:count(from, to)
	local per, hits, level = self.per, 0, 1
	while from < to do
		while level < self.top and from % per[level + 1] == 0 and from + per[level + 1] <= to do
			level = level + 1
		end
		while from + per[level] > to do
			level = level - 1
		end
		local chunk, begin = self:held(level, from)
		local stop = min(begin + self.span[level], to - to % per[level])
		if chunk then
			hits = hits + sum(chunk, self.fan[level], (from - begin) / per[level], (stop - begin) / per[level])
		end
		from = stop
	end
	return hits
end

-- broken is raised where the fields do not fit each other. Somebody has changed them, and a script must never search
-- without end.
function Sliding:broken()
	error('the fields of ' .. self.fields.key .. ' do not fit each other')
end

-- seek returns where the first bucket of a level begins that counts something, from a finest bucket on. It climbs where
-- a chunk ends, and descends where a bucket counts. Of the coarse buckets the newest is not written yet, but counts.
-- After some chunks, if that is given, it returns how far it came.
function Sliding:seek(level, from, chunks)
	local lowest = level
	while from <= self.newest do
		if chunks == 0 then
			return from
		end
		chunks = chunks and chunks - 1
		local chunk, begin = self:held(level, from)
		local span, per = self.span[level], self.per[level]
		local at = chunk and some(chunk, self.fan[level], floor((from - begin) / per)) or nil
		if level > 1 and self.newest < begin + span then
			at = min(at or span, self:place(level, begin, self.newest))
		end
		if at then
			from = max(from, begin + at * per)
			if level == lowest then
				return from
			end
			level = level - 1
		elseif chunk ~= nil and level < self.top and from == begin and from > self.oldest then
			self:broken() -- the bucket above counts, and none of these
		else
			from, level = begin + span, min(level + 1, self.top)
		end
	end
	self:broken()
end

-- back returns the finest bucket that holds a hit when some newer ones are left out, and how many of its own are then
-- left out. There are more hits in the chunks than these.
function Sliding:back(hits)
	local level, finest = 1, self.newest
	while finest >= self.oldest do
		local chunk, begin = self:held(level, finest)
		local stop = self:place(level, begin, finest) + 1
		local all = chunk and sum(chunk, self.fan[level], 0, stop) or 0
		if all <= hits then
			hits, finest, level = hits - all, begin - 1, min(level + 1, self.top)
		else
			local at
			at, hits = back_from(chunk, self.fan[level], stop, hits)
			if level == 1 then
				return begin + at, hits
			end
			finest, level = begin + (at + 1) * self.per[level] - 1, level - 1
		end
	end
	self:broken()
end

function Sliding:leaves(finest)
	return (finest + 1) * self.width + self.window
end

-- last is the newest finest bucket that counts.
function Sliding:last()
	return self.live > 0 and self.at or self.newest
end

-- sum drops what has left the window, moves what is later than now into now's bucket, and returns what counts.
function Sliding:sum(now)
	if self.summed == now then
		return self.total + self.live
	end
	self.summed = now
	local now_at, from = floor(now / self.width), floor((now - self.window) / self.width)
	if self.live > 0 then
		if self.at < from then
			self.total, self.live, self.changed = 0, 0, true
		elseif self.at > now_at then
			self.at, self.changed = now_at, true
		end
	end
	if self.total > 0 then
		if self.newest > now_at then
			self:fold(now_at)
		end
		if self.newest < from then
			self.total, self.changed = 0, true
		elseif self.total > 0 and self.oldest < from then
			self:drop(from)
		end
	end
	return self.total + self.live
end

-- drop forgets the buckets before the finest bucket from.
function Sliding:drop(from)
	self:layout()
	self.total = self.total - self:count(self.oldest, from)
	self.oldest, self.changed = self:seek(1, from), true
end

-- fold moves the hits of all buckets later than the finest bucket now_at into it, and makes it the live one.
function Sliding:fold(now_at)
	self:layout()
	local later = self.total
	if self.oldest <= now_at then
		later = later - self:count(self.oldest, now_at + 1)
	end
	self:take_chunks(later)
	self.at, self.live = now_at, self.live + later
end

-- take_chunks takes the newest hits out of the chunks.
function Sliding:take_chunks(hits)
	self.changed = true
	if hits == self.total then
		self.total = 0
		return
	end
	self:layout()
	local finest, part = self:back(hits)
	local name, begin = self:chunk(1, finest)
	local chunk, at = self.fields:get(name), finest - begin
	self.fields:set(name, with(chunk, self.fan[1], at, cell(chunk, self.fan[1], at) - part))
	self.total = self.total - hits
	self:truncate(finest)
end

-- truncate makes a finest bucket the newest. What stands behind it in its chunks is zeroed, so that they can grow
-- again, and what is found to be left over is removed. The rest stays until the key ends.
function Sliding:truncate(finest)
	local fields = self.fields
	for level = 1, self.top do
		local name, begin = self:chunk(level, finest)
		local mine, fan, per = fields:get(name), self.fan[level], self.per[level]
		local at = self:place(level, begin, finest)
		for behind = at + 1, level > 1 and fan - 1 or 0 do
			if cell(mine, fan, behind) > 0 then
				fields:clear((self:chunk(level - 1, begin + behind * per)))
			end
		end
		fields:set(name, upto(mine, fan, at))
		local newest = self:chunk(level, self.newest)
		if newest ~= name then
			fields:clear(newest)
		end
	end
	self:forget(finest)
	self.newest = finest
end

-- forget removes the coarsest chunks that lie behind a finest bucket: none of them may be taken for one that counts
-- when the window moves on.
function Sliding:forget(finest)
	local span = self.span[self.top]
	local first = max(finest + span, self.swept, self.newest - FORGET * span)
	for number = floor(first / span), floor(self.newest / span) do
		self.fields:clear((self:chunk(self.top, number * span)))
	end
end

function Sliding:add(now, delta)
	local sum = self:sum(now)
	if delta < 0 then
		self:take_back(min(-delta, sum))
		return
	end
	local added = min(delta, MAX_COUNT - sum)
	if added == 0 then
		return
	end
	local at = floor(now / self.width)
	self.grown = self.grown or sum == 0 or self:expires() ~= kept(self:leaves(at), self.window)
	if self.live > 0 and self.at ~= at then
		self:flush()
	end
	self.at, self.live, self.changed = at, self.live + added, true
end

-- flush moves the live bucket into the chunks.
function Sliding:flush()
	self:layout()
	local at, empty = self.at, self.total == 0
	if empty then
		self:restart(at)
	end
	self:enter(at)
	local name, begin = self:chunk(1, at)
	local chunk = self.fields:get(name) or string.rep('\0', self.fan[1])
	local hits = empty and 0 or cell(chunk, self.fan[1], at - begin)
	self.fields:set(name, with(chunk, self.fan[1], at - begin, hits + self.live))
	self.total, self.newest, self.live, self.changed = self.total + self.live, at, 0, true
end

-- restart makes ready for the first bucket of an empty window. What the window held goes. If that is too much for one
-- check, the rest is swept by the next ones.
function Sliding:restart(at)
	if self.newest > 0 then
		self.oldest = self.newest
		if self:sweep(RESTART) then
			for level = 1, self.top do
				self.fields:clear((self:chunk(level, self.newest)))
			end
			self.newest = 0
		elseif self.newest > at then -- the clock stepped back
			self:forget(at)
			self.newest = 0
		end
	end
	if self.newest == 0 then
		self.swept = at
		if self.top > 2 then -- many chunks: a long value makes Redis index the fields before there are too many to do so
			self.fields:set(self.limit.name .. '0', string.rep(' ', 65))
		end
	end
	self.oldest = at
end

-- enter begins the chunks that the newest bucket enters as it moves on to a finest bucket. For those that it leaves,
-- the bucket above is written.
function Sliding:enter(at)
	local follows = self.total > 0 or self.newest > 0 -- bucket 0, of 1970, is no newest if nothing counts
	for level = 1, self.top do
		local name, begin = self:chunk(level, at)
		if follows and self.newest >= begin then
			return -- coarser levels go on as well
		end
		local fan = self.fan[level]
		if follows and level < self.top then
			local left = self.fields:get((self:chunk(level, self.newest)))
			local above, first = self:chunk(level + 1, self.newest)
			local hits = min(MAX_COUNT, left and sum(left, fan, 0, fan) or 0)
			local chunk = self.fields:get(above) or string.rep('\0', self.fan[level + 1])
			local place = self:place(level + 1, first, self.newest)
			self.fields:set(above, with(chunk, self.fan[level + 1], place, hits))
		end
		self.fields:set(name, string.rep('\0', fan))
	end
end

-- take_back takes away the newest hits.
function Sliding:take_back(hits)
	local live = min(hits, self.live)
	self.live, self.changed = self.live - live, self.changed or hits > 0
	if hits > live then
		self:take_chunks(hits - live)
	end
end

-- hold returns the first moment at which at most keep of the hits that count now still do.
function Sliding:hold(now, keep)
	local sum = self:sum(now)
	if sum <= keep then
		return now
	elseif keep < self.live then
		return self:leaves(self.at)
	elseif keep == sum - 1 then
		return self:leaves(self.total > 0 and self.oldest or self.at)
	end
	self:layout()
	return self:leaves((self:back(keep - self.live)))
end

-- expires is until when the key must last.
function Sliding:expires()
	return kept(self:leaves(self:last()), self.window)
end

-- sweep removes chunks that lie wholly before the oldest bucket, some at a time, and returns whether none are left. The
-- buckets of the second level tell which chunks there are.
function Sliding:sweep(most)
	local span = self.span[1]
	local last = floor(self.oldest / span)
	for _ = 1, most do
		local swept = self.swept
		if floor(swept / span) >= last then
			return true
		end
		self.fields:clear((self:chunk(1, swept)))
		local from = (floor(swept / span) + 1) * span
		if self.top > 1 then
			from = self:seek(2, from, LOOK_AT)
			for level = 2, self.top do
				local passed, begin = self:chunk(level, swept)
				if begin + self.span[level] <= from then
					self.fields:clear(passed)
				end
			end
		end
		self.swept = from
	end
	return floor(self.swept / span) >= last
end

function Sliding:save()
	if self.top and self.total > 0 then
		self:sweep(SWEEP)
	end
	self.fields:set(self.limit.name, to_bytes('<I7I7I7I7I7I7', self.total, self.oldest, self.newest, self.swept,
		self.at, self.live))
end
