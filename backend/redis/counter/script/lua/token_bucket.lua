-- token_bucket: a count that leaks, in one field: the requests of a window, by which it leaks; when it was last changed;
-- how long hits had been leaking then; and the hits that were counted since that leaking began.

local Bucket = {}
Bucket.__index = Bucket

-- carried returns for how long the next hit has been leaking by another rate than that by which hits leaked until an age:
-- the same share of it has leaked.
local function carried(age, was, rate, window)
	local hits = leaked(age, was, window)
	if hits > 0 then
		age = max(0, age - leaks(hits, was, window))
	end
	return min(floor(age * was / rate), leaks(1, rate, window) - 1)
end

local function token_bucket(fields, l)
	local s = setmetatable({fields = fields, name = l.name, rate = l.width, window = l.window, was = l.width, last = 0,
		age = 0, held = 0, changed = false, grown = false}, Bucket)
	local value = fields:get(l.name)
	if value then
		s.was, s.last, s.age, s.held = from_bytes('<I7I7I7I7', value)
	end
	return s
end

-- sum returns the hits that count at now. A clock that stepped back takes the whole state with it. Where the requests of
-- a window have changed, what counts leaks by the new ones from now on.
function Bucket:sum(now)
	if self.held == 0 then
		return 0
	end
	if now < self.last then
		self.last, self.changed = now, true
	end
	local sum, _, age = level_at(self.held, now - self.last + self.age, self.was, self.window)
	if sum == 0 then
		self.held, self.changed = 0, true
	elseif self.was ~= self.rate then
		age = carried(age, self.was, self.rate, self.window)
		self.last, self.age, self.held, self.was = now, age, sum, self.rate
		self.changed, self.grown = true, true
	end
	return sum
end

function Bucket:add(now, delta)
	local before = self:sum(now)
	delta = max(-before, min(delta, max(0, MAX_BURST - before)))
	if delta == 0 then
		return
	end
	if before == 0 then
		self.age, self.was = 0, self.rate
	else
		before, self.held, self.age = level_at(self.held, now - self.last + self.age, self.rate, self.window)
	end
	self.last, self.held = now, before + delta > 0 and self.held + delta or 0
	self.changed, self.grown = true, self.held > 0 and (self.grown or delta > 0)
end

-- hold returns the first moment at which at most keep of the hits that count now still do.
function Bucket:hold(now, keep)
	if self:sum(now) <= keep then
		return now
	end
	return when_leaked(self.last - self.age, self.held - keep, self.rate, self.window)
end

-- expires returns until when the key is kept.
function Bucket:expires()
	return drained(self.last - self.age, self.held, self.rate, self.window)
end

function Bucket:save()
	if self.held == 0 then
		self.fields:clear(self.name)
	else
		self.fields:set(self.name, to_bytes('<I7I7I7I7', self.rate, self.last, self.age, self.held))
	end
end
