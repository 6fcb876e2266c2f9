-- sliding_window: buckets on several levels, and a running sum beside them.
--
-- The buckets of a level stand in chunks, one for each bucket of the level above; fifteen of the coarsest level make
-- a chunk, too. A header holds the hits in the chunks, their oldest and newest finest bucket, how far old chunks have been
-- swept away, and the live bucket, which goes into the chunks only when it is over: most checks read and write nothing
-- but the header.
--
-- What is left over is never read, and so need not be removed at once: buckets before the oldest, the chunk of a bucket
-- that counts nothing, chunks of the coarsest level that do not lie between the oldest and the newest. What stands in a
-- chunk behind the newest is zero. A coarse bucket counts what its finer ones still count, so whole coarse buckets can
-- be dropped without looking into them: nothing here reads more than a chunk or two of a level.

local Sliding = {}
Sliding.__index = Sliding

local SWEEP = 12 -- chunks that one check sweeps away

local function sliding_window(fields, l)
	local s = setmetatable({fields = fields, limit = l, width = l.width, total = 0, oldest = 0, newest = 0, swept = 0,
		at = 0, live = 0, changed = false, grown = false, top = false}, Sliding)
	local header = fields:get(l.name)
	if header then
		s.total, s.oldest, s.newest, s.swept, s.at, s.live = from_bytes('<I7I7I7I7I7I7', header)
	end
	return s
end

-- layout says for each level how many finest buckets one of its buckets holds, and how many of its buckets a chunk has.
function Sliding:layout()
	if self.top then
		return
	end
	local levels, widths = self.limit.levels, {}
	for i = 1, #levels / 7 do
		widths[i] = from_bytes('<I7', levels, 7 * i - 6)
	end
	self.per, self.fan, self.top = {}, {}, #widths
	for level = 1, self.top do
		self.per[level] = widths[level] / widths[1]
		self.fan[level] = (widths[level + 1] or 15 * widths[self.top]) / widths[level]
	end
end

-- index is the number of the bucket on a level that holds a finest bucket.
function Sliding:index(level, finest)
	return floor(finest / self.per[level])
end

-- chunk is the name of a bucket's chunk, its number, and the bucket's place in it.
function Sliding:chunk(level, i)
	local fan = self.fan[level]
	local number = floor(i / fan)
	return self.limit.name .. level .. to_bytes('<I4', number), number, i - number * fan
end

-- get returns the hits of a bucket whose chunk counts.
function Sliding:get(level, i)
	if self.total == 0 or i < self:index(level, self.oldest) or i > self:index(level, self.newest) then
		return 0
	end
	local name, _, at = self:chunk(level, i)
	local value = self.fields:get(name)
	return value and cell(value, self.fan[level], at) or 0
end

-- path returns the hits of the bucket of each level that holds a finest bucket.
function Sliding:path(finest)
	local hits = {}
	for level = self.top, 1, -1 do
		hits[level] = hits[level + 1] == 0 and 0 or self:get(level, self:index(level, finest))
	end
	return hits
end

-- set changes the hits of a bucket. A fresh chunk begins with zeros.
function Sliding:set(level, i, hits, fresh)
	local name, _, at = self:chunk(level, i)
	local value = not fresh and self.fields:get(name) or string.rep('\0', self.fan[level])
	self.fields:set(name, with(value, self.fan[level], at, hits))
end

-- grow sets the hits of the bucket of each level that holds a finest bucket; before is what its path was.
function Sliding:grow(finest, before, hits)
	for level = 1, self.top do
		local i = self:index(level, finest)
		local fresh = before[level + 1] == 0
		if level == self.top then
			local _, number = self:chunk(level, i)
			fresh = self.total == 0 or number < self:top_chunk(self.oldest) or number > self:top_chunk(self.newest)
		end
		self:set(level, i, hits[level], fresh)
	end
end

-- top_chunk is the number of the coarsest chunk that holds a finest bucket.
function Sliding:top_chunk(finest)
	local _, number = self:chunk(self.top, self:index(self.top, finest))
	return number
end

-- span returns the first and the last bucket of a level that can count; below one of the level above, if it is given.
function Sliding:span(level, above)
	local first, last = self:index(level, self.oldest), self:index(level, self.newest)
	if above then
		first = max(first, above * self.fan[level])
		last = min(last, (above + 1) * self.fan[level] - 1)
	end
	return first, last
end

-- list returns the hits of the buckets from first to last, which all lie within the span.
function Sliding:list(level, first, last)
	local all, fan = {}, self.fan[level]
	while first <= last do
		local name, number, at = self:chunk(level, first)
		local value = self.fields:get(name) or string.rep('\0', fan)
		local stop = min(last, (number + 1) * fan - 1)
		append(all, value, fan, at, stop - number * fan)
		first = stop + 1
	end
	return all
end

function Sliding:leaves(finest)
	return (finest + 1) * self.width + self.limit.window
end

-- last is the newest finest bucket that counts.
function Sliding:last()
	return self.live > 0 and self.at or self.newest
end

-- sum drops what has left the window, moves what is later than now into now's bucket, and returns what counts.
function Sliding:sum(now)
	local width = self.width
	if self.live > 0 then
		if self:leaves(self.at) <= now then
			self.total, self.live, self.changed = 0, 0, true
		elseif self.at * width > now then
			self:flush()
		end
	end
	if self.total > 0 then
		if self.newest * width > now then
			self:fold(floor(now / width))
		end
		local from = floor((now - self.limit.window) / width)
		if self.newest < from then
			self.total, self.changed = 0, true
		elseif self.oldest < from then
			self:drop(from)
		end
	end
	return self.total + self.live
end

-- drop forgets the buckets before the finest bucket from: whole ones on each level, down to those beside from.
function Sliding:drop(from)
	self:layout()
	local first, last = self:span(self.top)
	for level = self.top, 1, -1 do
		local edge, gone = self:index(level, from), 0
		for _, hits in ipairs(self:list(level, first, min(edge - 1, last))) do
			gone = gone + hits
		end
		self.total = self.total - gone
		if gone > 0 then
			for above = level + 1, self.top do
				local i = self:index(above, from)
				self:set(above, i, self:get(above, i) - gone)
			end
		end
		if self:get(level, edge) == 0 then
			break
		end
		if level > 1 then
			first, last = self:span(level - 1, edge)
		end
	end
	self.oldest = from
	self.oldest, self.changed = self:first(), true
end

-- first returns the first finest bucket, from the oldest on, that holds hits. There is one unless the key is damaged: then
-- it gives up, as a script must never search without end.
function Sliding:first()
	local i, last = self:span(self.top)
	for level = self.top, 1, -1 do
		local fan, found = self.fan[level], false
		while not found do
			if i > last then
				error('the fields of ' .. self.fields.key .. ' do not fit each other')
			end
			local name, number, at = self:chunk(level, i)
			local value = self.fields:get(name)
			found = value and some(value, fan, at)
			i = number * fan + (found or fan)
		end
		if level > 1 then
			i, last = self:span(level - 1, i)
		end
	end
	return i
end

-- fold moves the hits of all buckets later than the finest bucket live into it.
function Sliding:fold(live)
	self:layout()
	local before, hits, moved = self:path(live), {}, 0
	local first, last = self:span(self.top)
	for level = self.top, 1, -1 do
		local i = self:index(level, live)
		for _, later in ipairs(self:list(level, max(first, i + 1), last)) do
			moved = moved + later
		end
		hits[level] = before[level] + moved
		first, last = 1, 0
		if level > 1 and before[level] > 0 then
			first, last = self:span(level - 1, i)
		end
	end
	self:grow(live, before, hits)
	self:truncate(live)
	self.oldest, self.swept = min(self.oldest, live), min(self.swept, live)
end

-- truncate makes a finest bucket the newest. What stands behind it in its chunks is zeroed, so that they can grow again.
function Sliding:truncate(finest)
	self:forget(finest)
	self.newest, self.changed = finest, true
	for level = 1, self.top do
		local name, _, at = self:chunk(level, self:index(level, finest))
		self.fields:set(name, upto(self.fields:get(name), self.fan[level], at))
	end
end

-- forget removes the coarsest chunks that lie behind a finest bucket: none of them may be taken for one that counts when
-- the window moves on. Years without a chunk may lie between, so it looks for those that are there.
function Sliding:forget(finest)
	local prefix = self.limit.name .. self.top
	local first = max(self:top_chunk(finest) + 1, self:top_chunk(self.swept))
	local last = self:top_chunk(self.newest)
	if last - first < SWEEP then
		for number = first, last do
			self.fields:clear(prefix .. to_bytes('<I4', number))
		end
		return
	end
	for _, name in ipairs(self.fields:names()) do
		if #name == #prefix + 4 and string.sub(name, 1, #prefix) == prefix then
			local number = from_bytes('<I4', name, #prefix + 1)
			if number >= first and number <= last then
				self.fields:clear(name)
			end
		end
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
	self.grown = self.grown or sum == 0 or self:last() ~= at
	if self.live > 0 and self.at ~= at then
		self:flush()
	end
	self.at, self.live, self.changed = at, self.live + added, true
end

-- flush moves the live bucket into the chunks.
function Sliding:flush()
	local live, at = self.live, self.at
	if live == 0 then
		return
	end
	self:layout()
	if self.total == 0 then
		self:begin(at)
	end
	local before, hits = self:path(at), {}
	for level = 1, self.top do
		hits[level] = before[level] + live
	end
	self:grow(at, before, hits)
	self.total, self.newest, self.live, self.changed = self.total + live, at, 0, true
end

-- begin makes an empty window ready for its first hit.
function Sliding:begin(live)
	local swept = live
	if self.newest > 0 then
		self:forget(live)
		local all = self.newest + self.fan[1]
		local done = self:sweep(all)
		for level = 1, self.top do
			self.fields:clear((self:chunk(level, self:index(level, self.newest))))
		end
		swept = done < all and min(done, live) or live
	end
	self.oldest, self.swept, self.newest = live, swept, live
end

-- take_back takes away the newest hits: whole buckets on each level, then a part of one.
function Sliding:take_back(hits)
	local live = min(hits, self.live)
	self.live, hits, self.changed = self.live - live, hits - live, self.changed or hits > 0
	if hits == 0 then
		return
	end
	if hits == self.total then
		self.total = 0
		return
	end
	self:layout()
	local left, path, taken = hits, {}, {}
	local first, last = self:span(self.top)
	for level = self.top, 1, -1 do
		local all = self:list(level, first, last)
		local at = #all
		while all[at] <= left do
			left, at = left - all[at], at - 1
		end
		path[level], taken[level] = first + at - 1, left
		if level > 1 then
			first, last = self:span(level - 1, path[level])
		end
	end
	for level = 1, self.top do
		self:set(level, path[level], self:get(level, path[level]) - taken[level])
	end
	self.total = self.total - hits
	self:truncate(path[1])
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
	keep = keep - self.live
	local left = self.total
	local i, last = self:span(self.top)
	for level = self.top, 1, -1 do
		for _, hits in ipairs(self:list(level, i, last)) do
			if left - hits <= keep then
				break
			end
			left, i = left - hits, i + 1
		end
		if level > 1 then
			i, last = self:span(level - 1, i)
		end
	end
	return self:leaves(i)
end

-- expires returns the first moment from which nothing counts.
function Sliding:expires()
	return self:leaves(self:last())
end

-- sweep removes chunks that lie wholly before a finest bucket, some at a time, and returns how far all are removed.
function Sliding:sweep(before)
	local fan = self.fan[1]
	local number, last, budget = floor(self.swept / fan), floor(before / fan), SWEEP
	while number < last do
		if budget == 0 then
			return number * fan
		end
		for level = 1, self.top do
			local span = self.per[level] * self.fan[level]
			local mine = floor(number * fan / span)
			if mine == floor((number + 1) * fan / span) then
				break -- the chunks of coarser levels go on as well
			end
			self.fields:clear(self.limit.name .. level .. to_bytes('<I4', mine))
		end
		number, budget = number + 1, budget - 1
	end
	return before
end

function Sliding:save()
	if self.top and self.total > 0 then
		self.swept = self:sweep(self.oldest)
	end
	self.fields:set(self.limit.name, to_bytes('<I7I7I7I7I7I7', self.total, self.oldest, self.newest, self.swept,
		self.at, self.live))
end
