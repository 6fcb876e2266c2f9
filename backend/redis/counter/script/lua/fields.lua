-- A key is a hash. Its fields are read at most once, and written together at the end of a check.

local Fields = {}
Fields.__index = Fields

-- open reads the first field of each limit. header is that of the only limit, if it has been read. Logs have a set in
-- place of fields.
local function open(key, limits, header)
	local f = setmetatable({key = key, values = {}, written = false, cleared = false}, Fields)
	if limits[1].algorithm == LOG then
		return f
	elseif header ~= nil then
		f.values[limits[1].name] = header
		return f
	end
	local names = {}
	for i, l in ipairs(limits) do
		names[i] = l.name
	end
	f:fetch(names)
	return f
end

-- fetch reads fields that will be asked for.
function Fields:fetch(names)
	for i, value in ipairs(call('HMGET', self.key, unpack(names))) do
		self.values[names[i]] = value
	end
end

-- get returns a field's value, false if there is none.
function Fields:get(name)
	local v = self.values[name]
	if v == nil then
		v = call('HGET', self.key, name)
		self.values[name] = v
	end
	return v
end

function Fields:set(name, value)
	if self.values[name] ~= value then
		self.values[name] = value
		self.written = self.written or {}
		self.written[name] = value
	end
	if self.cleared then
		self.cleared[name] = nil
	end
end

-- clear removes a field.
function Fields:clear(name)
	self.values[name] = false
	self.cleared = self.cleared or {}
	self.cleared[name] = true
	if self.written then
		self.written[name] = nil
	end
end

-- save writes what was set and cleared. needed is the moment until which the key must last, nil if that has not
-- changed. It returns what keep returns.
function Fields:save(needed, now)
	if self.written then
		local set = {}
		for name, value in pairs(self.written) do
			set[#set + 1] = name
			set[#set + 1] = value
		end
		if #set > 0 then
			call('HSET', self.key, unpack(set))
		end
	end
	if self.cleared then
		local names = {}
		for name in pairs(self.cleared) do
			names[#names + 1] = name
		end
		if #names > 0 then
			call('HDEL', self.key, unpack(names))
		end
	end
	return needed and keep(self.key, needed, now)
end
