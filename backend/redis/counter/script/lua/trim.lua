-- What limits leave behind that the configuration has dropped. A key that stays hot under others would keep it for ever,
-- so checks that prolong the key remove it, some at a time. What still counts stays: while a configuration is rolled out
-- both are asked.

local WIDTHS = {t = 50000, s = 1000000, m = 60000000, h = 3600000000, d = 86400000000}

-- ends tells, by the first letter of a header's name, from when on nothing counts that it tells of; nil if it is no
-- header. Fields of other letters stay.
local ends = {}

function ends.f(name, value)
	local seconds = tonumber(sub(name, 2), 36)
	if seconds and #value == 14 then
		local bucket, hits = from_bytes('<I7I7', value)
		return hits > 0 and (bucket + 1) * seconds * 1000000 or 0
	end
end

function ends.s(name, value)
	local seconds, width = tonumber(sub(name, 2, -2), 36), WIDTHS[sub(name, -1)]
	if seconds and width and #value == 42 then -- no chunk is as long
		local total, _, newest, _, at, live = from_bytes('<I7I7I7I7I7I7', value)
		return total + live > 0 and ((live > 0 and at or newest) + 1) * width + seconds * 1000000 or 0
	end
end

function ends.t(name, value)
	local seconds = tonumber(sub(name, 2), 36)
	if seconds and #value == 28 then
		local rate, last, age, held = from_bytes('<I7I7I7I7', value)
		return held > 0 and when_leaked(last - age, held, rate, seconds * 1000000) or 0
	end
end

-- page returns fields, their values, and whether these are all. Of a large hash it is a part, another one each time; but
-- of a hash that is packed, and may hold hundreds, Redis has no parts.
local function page(key, now)
	if call('HLEN', key) <= MANY then
		local fields = call('HKEYS', key)
		return fields, call('HMGET', key, unpack(fields)), true
	end
	local cursor = string.format('%.0f', now % 65521) -- any number will do
	local fields, values = {}, {}
	for i, text in ipairs(call('HSCAN', key, cursor, 'COUNT', MANY / 2)[2]) do
		local to = i % 2 == 1 and fields or values
		to[#to + 1] = text
	end
	return fields, values, false
end

-- trim_fields removes fields of dropped limits. The header of a sliding window goes only together with all its chunks:
-- one that begins anew must not find any that it does not know of.
local function trim_fields(key, own, now)
	local fields, values, all = page(key, now)
	local over, gone = {}, {} -- over says of a header whether what it tells of is over
	for i, name in ipairs(fields) do
		if #gone == MANY then
			break
		end
		local kind = sub(name, 1, 1)
		local moment = ends[kind] and ends[kind](name, values[i])
		local header = not moment and header_of(name)
		if moment and not own[name] and moment <= now and (all or kind ~= 's') then
			gone[#gone + 1] = name
		elseif header and not own[header] then
			if over[header] == nil then
				local value = call('HGET', key, header)
				moment = value and ends.s(header, value)
				over[header] = not value or moment ~= nil and moment <= now
			end
			if over[header] then
				gone[#gone + 1] = name
			end
		end
	end
	if #gone > 0 then
		call('HDEL', key, unpack(gone))
	end
end

-- trim_log removes members of a log that have left, at most some, and returns how many.
local function trim_log(key, name, most, now)
	local window = tonumber(sub(name, 2, -2), 36) * 1000000
	local from, edge = '[' .. name, '(' .. name .. to_bytes('>I7', max(0, now - window + 1))
	local more = call('ZRANGEBYLEX', key, from, edge, 'LIMIT', most, 1)[1]
	return call('ZREMRANGEBYLEX', key, from, more and '(' .. more or edge)
end

-- trim_logs goes from log to log of a set, and removes what has left those that were dropped.
local function trim_logs(key, own, now)
	local edge, most = '-', TRIM
	while most > 0 do
		local member = call('ZRANGEBYLEX', key, edge, '+', 'LIMIT', 0, 1)[1]
		local name = member and string.match(member, '^l%w+:')
		if not name then
			return
		end
		if not own[name] then
			most = most - trim_log(key, name, most, now)
		end
		edge = '(' .. name .. '\255'
	end
end

local function names(limits)
	local own = {}
	for _, l in ipairs(limits) do
		own[l.name] = true
	end
	return own
end

-- trim removes what dropped limits have left in a key that was to end at a moment and now does at a later one. Every hit
-- of logs prolongs their key; one in a sixteenth of the longest window looks what is there.
local function trim(key, limits, ended, ends_at, now)
	local own, longest = names(limits), 0
	for _, l in ipairs(limits) do
		longest = max(longest, l.window)
	end
	if limits[1].algorithm ~= LOG then
		if strangers(key, own, longest, ended, ends_at) then
			trim_fields(key, own, now)
		end
	elseif kept(ended, longest) ~= kept(ends_at, longest) then
		trim_logs(key, own, now)
	end
end

-- tidy trims after a check that was decided on the quick way, which has met what is none of its limit's.
local function tidy(key, packed, now)
	local _, _, limits = arguments(packed)
	if limits[1].algorithm == LOG then
		trim_logs(key, names(limits), now)
	else
		trim_fields(key, names(limits), now)
	end
end
