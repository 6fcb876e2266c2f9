-- Removes the fields of limits that the configuration has dropped. A key that stays hot under other limits would keep
-- them for ever, so checks that extend its TTL remove some. Fields whose hits still count stay: during a rollout both
-- configurations are in use.

local function make_trim()
	local MANY = 128 -- a hash with at most so many fields is read as a whole
	local PAGE = 20  -- fields of a larger hash that one check reads
	local WIDTHS = {t = 50000, s = 1000000, m = 60000000, h = 3600000000, d = 86400000000}

	-- expiry_of has, by the first letter of a header's name, a function that returns when the last hit of its limit stops
	-- counting, or nil if the field is no header. Fields with other letters stay.
	local expiry_of = {}

	function expiry_of.f(name, value)
		local seconds = tonumber(sub(name, 2), 36)
		if seconds and (#value == 14 or #value == 21) then
			local bucket, hits = from_bytes('<I7I7', value)
			return hits > 0 and (bucket + 1) * seconds * 1000000 or 0
		end
	end

	function expiry_of.s(name, value)
		local seconds, width = tonumber(sub(name, 2, -2), 36), WIDTHS[sub(name, -1)]
		if seconds and width and (#value == 42 or #value == 56) then -- no chunk is as long
			local total, _, newest, _, at, live = from_bytes('<I7I7I7I7I7I7', value)
			return total + live > 0 and ((live > 0 and at or newest) + 1) * width + seconds * 1000000 or 0
		end
	end

	function expiry_of.t(name, value)
		local seconds = tonumber(sub(name, 2), 36)
		if seconds and #value == 28 then
			local rate, last, age, held = from_bytes('<I7I7I7I7', value)
			return held > 0 and last - age + held * seconds * 1000000 / rate + 2 or 0 -- drained, but for rounding
		end
	end

	function expiry_of.l(name, value)
		local seconds = tonumber(sub(name, 2), 36)
		if seconds and #value >= 49 then -- six numbers and a total, then instants
			return #value > 49 and from_bytes('<I7', value, #value - 13) + seconds * 1000000 or 0
		end
	end

	-- header_of returns the name of the header of a chunk or of a field of blanks (see SlowPath:restart); nil for other
	-- fields.
	local function header_of(field)
		return string.match(field, '^(s%w+[tsmhd])%d....$') or string.match(field, '^(s%w+[tsmhd])0$')
			or string.match(field, '^(l%w+):.......$')
	end

	-- in_use reports whether a field belongs to a limit whose header's name is in headers. Nearly all fields are chunks of
	-- sliding windows, whose names begin with the header's.
	local function in_use(headers, field)
		return byte(field) == 115 and headers[sub(field, 1, -6)] or headers[field] or headers[header_of(field) or field]
	end

	-- may_have_dropped reports whether a hash whose TTL was extended may have fields of other limits than these. It reads
	-- all fields once in a window, but returns true for a hash with many fields without reading them.
	local function may_have_dropped(headers, window, ended, needed)
		local fields = call('HLEN', key)
		if fields == 1 or fields > MANY then
			return fields > 1
		elseif floor(ended / window) == floor(needed / window) then
			return false
		end
		for _, field in ipairs(call('HKEYS', key)) do
			if not in_use(headers, field) then
				return true
			end
		end
		return false
	end

	-- read_fields returns fields, their values, and whether these are all fields. Of a large hash it returns another part
	-- each time, but Redis returns all of a hash in the listpack encoding, which may have hundreds of fields.
	local function read_fields(now)
		if call('HLEN', key) <= MANY then
			local fields = call('HKEYS', key)
			return fields, call('HMGET', key, unpack(fields)), true
		end
		local cursor = string.format('%.0f', now % 65521) -- any cursor is valid
		local fields, values = {}, {}
		for i, text in ipairs(call('HSCAN', key, cursor, 'COUNT', PAGE)[2]) do
			local to = i % 2 == 1 and fields or values
			to[#to + 1] = text
		end
		return fields, values, false
	end

	-- remove removes fields of dropped limits. It removes a header only together with all of its chunks: a limit that
	-- begins anew must not find old chunks.
	local function remove(headers, now)
		local fields, values, all = read_fields(now)
		local expired, gone = {}, {} -- expired: by header, whether nothing of its limit counts any more
		for i, name in ipairs(fields) do
			if #gone == MANY then
				break
			end
			local mine, kind = in_use(headers, name), sub(name, 1, 1)
			local header = not mine and header_of(name)
			local moment = not mine and not header and expiry_of[kind] and expiry_of[kind](name, values[i])
			if moment and moment <= now and (all or kind ~= 's' and kind ~= 'l') then
				gone[#gone + 1] = name
			elseif header then
				if expired[header] == nil then
					local value = call('HGET', key, header)
					moment = value and expiry_of[kind](header, value)
					expired[header] = not value or moment ~= nil and moment <= now
				end
				if expired[header] then
					gone[#gone + 1] = name
				end
			end
		end
		if #gone > 0 then
			call('HDEL', key, unpack(gone))
		end
	end

	return function(limits, ended, needed, now)
		local headers, longest = {[IDENTITY] = true}, 0
		for _, l in ipairs(limits) do
			headers[l.name], longest = true, max(longest, l.window)
		end
		if may_have_dropped(headers, longest, ended, needed) then
			remove(headers, now)
		end
	end
end

local trim_key

-- trim removes fields of dropped limits from a key whose expiry was extended from ended to needed.
local function trim(limits, ended, needed, now)
	trim_key = trim_key or make_trim()
	trim_key(limits, ended, needed, now)
end
