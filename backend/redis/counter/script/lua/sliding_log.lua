-- sliding_log: every instant at which something was counted, in a sorted set. All scores are 0, so its members stand in
-- the order of their bytes: the name of their limit, then the instant, the total of the limit's hits up to this member,
-- and the hits of the member, each in 7 bytes, the highest first.
--
-- What counts is the difference of two totals, that of the last member and that of the first one which has not left: no
-- sum is kept beside the members, and nothing depends on how soon those that have left are removed. Totals go round at
-- 2^53; what counts at the same time is less.

local ROUND = 9007199254740992
local TRIM = 64 -- members that have left, which one check removes

local function log_functions()
	local Log = {}
	Log.__index = Log

	local function plus(a, b)
		return a >= ROUND - b and a - (ROUND - b) or a + b
	end

	local function minus(a, b)
		return a >= b and a - b or a + (ROUND - b)
	end

	function Log:mine(member)
		return member and string.sub(member, 1, #self.name) == self.name
	end

	-- newest returns the last member of the limit. A limit that is alone in the set has the ends of it, which are read at once.
	function Log:newest()
		local last = call('ZRANGE', self.key, -1, -1)[1]
		if not last or self:mine(last) then
			self.alone = true
			return last and self:read(last)
		end
		return self:last_before(self.stop)
	end

	-- first_two returns the first members of the limit, one or two.
	function Log:first_two()
		local two = call('ZRANGE', self.key, 0, 1)
		if self:mine(two[1]) then
			return two
		end
		self.alone = false
		return call('ZRANGEBYLEX', self.key, self.start, self.stop, 'LIMIT', 0, 2)
	end

	-- first_from returns the first member of the limit behind an edge, last_before the last one before it.
	function Log:first_from(edge)
		local member = call('ZRANGEBYLEX', self.key, edge, self.stop, 'LIMIT', 0, 1)[1]
		return member and self:read(member)
	end

	function Log:last_before(edge)
		local member = call('ZREVRANGEBYLEX', self.key, edge, self.start, 'LIMIT', 0, 1)[1]
		return member and self:read(member)
	end

	function Log:read(member)
		local time, total, hits = from_bytes('>I7I7I7', member, #self.name + 1)
		return {member = member, time = time, total = total, hits = hits}
	end

	-- at is where the members of an instant begin.
	function Log:at(time)
		return self.name .. to_bytes('>I7', time)
	end

	-- sum returns the hits that count at now. What it finds out is remembered; save writes what has changed.
	function Log:sum(now)
		if self.held then
			return self.held
		end
		self.held = 0
		local last = self:newest()
		if not last then
			return 0
		end
		self.from = max(0, now - self.window + 1)
		if last.time > now then
			last = self:fold(last, now)
		end
		self.last = last
		if last.time < self.from then
			self.left, self.changed, self.alone = 2, true, false
			return 0
		end
		self.first = self:oldest()
		self.held = minus(last.total, self.first.total) + self.first.hits
		return self.held
	end

	-- oldest returns the first member that has not left. As a rule at most one has; left is 2 where it may be more.
	function Log:oldest()
		for i, member in ipairs(self:first_two()) do
			local m = self:mine(member) and self:read(member)
			if not m or m.time >= self.last.time then
				return self.last
			elseif m.time >= self.from then
				return m
			end
			self.left, self.changed = i, true
		end
		self.left = 2
		local m = self:first_from('[' .. self:at(self.from))
		return m and m.time < self.last.time and m or self.last
	end

	-- fold moves all hits that are not before now to now: the clock stepped back.
	function Log:fold(last, now)
		local hits
		local before = self:last_before('(' .. self:at(now))
		if before then
			hits = minus(last.total, before.total)
		else
			local first = self:first_from(self.start)
			hits = minus(last.total, first.total) + first.hits
		end
		self.cut, self.add_last, self.changed, self.grown = now, true, true, true
		return {time = now, total = last.total, hits = hits}
	end

	function Log:add(now, delta)
		local held = self:sum(now)
		if delta < 0 then
			self:take_back(min(-delta, held))
			return
		end
		local added = min(delta, MAX_COUNT - held)
		if added == 0 then
			return
		end
		local last = self.last
		local new = {time = now, total = last and plus(last.total, added) or added, hits = added}
		if held > 0 and last.time == now then
			self.cut, new.hits = now, last.hits + added
		end
		if held == 0 or self.first.time == now then
			self.first = new
		end
		self.last, self.held = new, held + added
		self.add_last, self.changed, self.grown = true, true, true
	end

	-- take_back takes away the newest hits: all members behind the one that holds the last hit left, and a part of that.
	function Log:take_back(hits)
		if hits == 0 then
			return
		end
		local rest = self.held - hits
		self.changed, self.grown, self.add_last = true, false, false
		if rest == 0 then
			self.cut, self.last, self.held = self.first.time, nil, 0
			return
		end
		local m = self:find(rest)
		local over = self:upto(m) - rest
		self.cut, self.last, self.held = m.time + 1, m, rest
		if over > 0 then
			self.last = {time = m.time, total = minus(m.total, over), hits = m.hits - over}
			self.first = m.time == self.first.time and self.last or self.first
			self.cut, self.add_last, self.grown = m.time, true, true
		end
	end

	-- upto returns the hits that count up to a member.
	function Log:upto(m)
		return minus(m.total, self.first.total) + self.first.hits
	end

	-- find returns the first member up to which at least so many hits count, by halving what lies between the ends.
	function Log:find(hits)
		if hits <= self.first.hits then
			return self.first
		elseif hits > self.held - self.last.hits then
			return self.last
		elseif hits == self.held - self.last.hits then
			return self:last_before('(' .. self:at(self.last.time))
		end
		local low = call('ZRANK', self.key, self.first.member) + 1
		local high = low + call('ZLEXCOUNT', self.key, '(' .. self.first.member, '(' .. self:at(self.last.time)) - 1
		while low < high do
			local middle = floor((low + high) / 2)
			if self:upto(self:read(call('ZRANGE', self.key, middle, middle)[1])) >= hits then
				high = middle
			else
				low = middle + 1
			end
		end
		return self:read(call('ZRANGE', self.key, low, low)[1])
	end

	-- hold returns the first moment at which at most keep of the hits that count now still do.
	function Log:hold(now, keep)
		local held = self:sum(now)
		if held <= keep then
			return now
		end
		return self:find(held - keep).time + self.window
	end

	-- expires returns the first moment from which nothing counts.
	function Log:expires()
		return self.last.time + self.window
	end

	function Log:save()
		if self.cut then
			call('ZREMRANGEBYLEX', self.key, '[' .. self:at(self.cut), self.stop)
		end
		if self.add_last then
			local m = self.last
			call('ZADD', self.key, 0, self.name .. to_bytes('>I7I7I7', m.time, m.total, m.hits))
		end
		if self.left > 0 then
			self:trim()
		end
	end

	-- trim removes members that have left, at most as many as the check may still remove.
	function Log:trim()
		local fields = self.fields
		local budget, edge = fields.budget or TRIM, '(' .. self:at(self.from)
		if self.left > 1 or budget < TRIM then
			local more = call('ZRANGEBYLEX', self.key, self.start, edge, 'LIMIT', budget, 1)[1]
			edge = more and '(' .. more or edge
		end
		fields.budget = budget - call('ZREMRANGEBYLEX', self.key, self.start, edge)
	end

	return Log
end

local Log

-- sliding_log is the state of a limit. Its functions are made when a call meets its first log.
local function sliding_log(fields, l)
	Log = Log or log_functions()
	return setmetatable({fields = fields, key = fields.key, name = l.name, window = l.window, start = '[' .. l.name,
		stop = '(' .. l.name .. '\255', left = 0, changed = false, grown = false}, Log)
end
