-- What limits leave behind that the configuration has dropped. A key that stays hot under others would keep it for
-- ever, so checks that prolong the key remove it, some at a time. What still counts stays: while a configuration is
-- rolled out both are asked.

local function trimming()
	local MANY = 128 -- fields that a hash has at most whose fields are looked at together
	local PAGE = 20  -- fields of a larger one that are looked at in one check
	local WIDTHS = {t = 50000, s = 1000000, m = 60000000, h = 3600000000, d = 86400000000}

	-- ends tells, by the first letter of a header's name, from when on nothing counts that it tells of; nil if it is no
	-- header. Fields of other letters stay.
	local ends = {}

	function ends.f(name, value)
		local seconds = tonumber(sub(name, 2), 36)
		if seconds and (#value == 14 or #value == 21) then
			local bucket, hits = from_bytes('<I7I7', value)
			return hits > 0 and (bucket + 1) * seconds * 1000000 or 0
		end
	end

	function ends.s(name, value)
		local seconds, width = tonumber(sub(name, 2, -2), 36), WIDTHS[sub(name, -1)]
		if seconds and width and (#value == 42 or #value == 56) then -- no chunk is as long
			local total, _, newest, _, at, live = from_bytes('<I7I7I7I7I7I7', value)
			return total + live > 0 and ((live > 0 and at or newest) + 1) * width + seconds * 1000000 or 0
		end
	end

	function ends.t(name, value)
		local seconds = tonumber(sub(name, 2), 36)
		if seconds and #value == 28 then
			local rate, last, age, held = from_bytes('<I7I7I7I7', value)
			return held > 0 and last - age + held * seconds * 1000000 / rate + 2 or 0 -- drained, but for rounding
		end
	end

	function ends.l(name, value)
		local seconds = tonumber(sub(name, 2), 36)
		if seconds and #value >= 49 then -- six numbers and a total; what follows are instants
			return #value > 49 and from_bytes('<I7', value, #value - 13) + seconds * 1000000 or 0
		end
	end

	-- header_of is the name of the header that a chunk or a row of blanks belongs to, nil for other fields.
	local function header_of(field)
		return string.match(field, '^(s%w+[tsmhd])%d....$') or string.match(field, '^(s%w+[tsmhd])0$')
			or string.match(field, '^(l%w+):.......$')
	end

	-- belongs reports whether a field is one of limits of these names. Nearly all are chunks of sliding windows, which
	-- their beginnings tell.
	local function belongs(own, field)
		return byte(field) == 115 and own[sub(field, 1, -6)] or own[field] or own[header_of(field) or field]
	end

	-- strangers reports whether the hash, whose end was moved, may hold fields of other limits than those of these names.
	-- It looks closely once in a window, but always where there are many fields: of these a check sees few.
	local function strangers(own, window, ended, needed)
		local fields = call('HLEN', key)
		if fields == 1 or fields > MANY then
			return fields > 1
		elseif floor(ended / window) == floor(needed / window) then
			return false
		end
		for _, field in ipairs(call('HKEYS', key)) do
			if not belongs(own, field) then
				return true
			end
		end
		return false
	end

	-- page returns fields, their values, and whether these are all. Of a large hash it is a part, another one each
	-- time; but of a hash that is packed, and may hold hundreds, Redis has no parts.
	local function page(now)
		if call('HLEN', key) <= MANY then
			local fields = call('HKEYS', key)
			return fields, call('HMGET', key, unpack(fields)), true
		end
		local cursor = string.format('%.0f', now % 65521) -- any number will do
		local fields, values = {}, {}
		for i, text in ipairs(call('HSCAN', key, cursor, 'COUNT', PAGE)[2]) do
			local to = i % 2 == 1 and fields or values
			to[#to + 1] = text
		end
		return fields, values, false
	end

	-- remove removes fields of dropped limits. The header of one that has chunks goes only together with all of these:
	-- one that begins anew must not find any that it does not know of.
	local function remove(own, now)
		local fields, values, all = page(now)
		local over, gone = {}, {} -- over says of a header whether what it tells of is over
		for i, name in ipairs(fields) do
			if #gone == MANY then
				break
			end
			local mine, kind = belongs(own, name), sub(name, 1, 1)
			local header = not mine and header_of(name)
			local moment = not mine and not header and ends[kind] and ends[kind](name, values[i])
			if moment and moment <= now and (all or kind ~= 's' and kind ~= 'l') then
				gone[#gone + 1] = name
			elseif header then
				if over[header] == nil then
					local value = call('HGET', key, header)
					moment = value and ends[kind](header, value)
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

	return function(limits, ended, needed, now)
		local own, longest = {[IDENTITY] = true}, 0
		for _, l in ipairs(limits) do
			own[l.name], longest = true, max(longest, l.window)
		end
		if strangers(own, longest, ended, needed) then
			remove(own, now)
		end
	end
end

local trim_key

-- trim looks after a key that was to end at a moment, and now must last until a later one.
local function trim(limits, ended, needed, now)
	trim_key = trim_key or trimming()
	trim_key(limits, ended, needed, now)
end
