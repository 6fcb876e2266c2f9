-- fixed_window: the count of one epoch-aligned window in one field, its number and its hits.

local Fixed = {}
Fixed.__index = Fixed

local function fixed_window(fields, l)
	local s = setmetatable({fields = fields, name = l.name, width = l.window, hits = 0, bucket = 0,
		changed = false, grown = false}, Fixed)
	local value = fields:get(l.name)
	if value then
		s.bucket, s.hits = from_bytes('<I7I7', value)
	end
	return s
end

-- sum returns the hits that count at now. A window later than now's is moved into it: the clock stepped back.
function Fixed:sum(now)
	local live = floor(now / self.width)
	if self.bucket ~= live and self.hits > 0 then
		self.hits, self.changed = self.bucket > live and self.hits or 0, true
	end
	self.bucket = live
	return self.hits
end

function Fixed:add(now, delta)
	if delta == 0 then
		return
	end
	local before = self:sum(now)
	self.hits = max(0, min(MAX_COUNT, before + delta))
	self.grown = self.grown or before == 0
	self.changed = true
end

-- hold returns the first moment at which at most keep of the hits that count now still do.
function Fixed:hold(now, keep)
	if self:sum(now) <= keep then
		return now
	end
	return (self.bucket + 1) * self.width
end

-- expires returns the first moment from which nothing counts.
function Fixed:expires()
	return (self.bucket + 1) * self.width
end

function Fixed:save()
	self.fields:set(self.name, to_bytes('<I7I7', self.bucket, self.hits))
end
