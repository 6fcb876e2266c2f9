-- A chunk is a string of counts, one for each of fan buckets, all of 1, 4 or 7 bytes.

local byte, find, sub = string.byte, string.find, string.sub

local function format(width)
	return width == 1 and '<B' or width == 4 and '<I4' or '<I7'
end

local function cell(chunk, fan, at)
	local width = #chunk / fan
	if width == 1 then
		return byte(chunk, at + 1)
	end
	return (from_bytes(format(width), chunk, at * width + 1))
end

-- with returns the chunk with another count at one place, wider if the count needs it.
local function with(chunk, fan, at, v)
	local width = #chunk / fan
	local need = v < 256 and 1 or v < 4294967296 and 4 or 7
	if need > width then
		local wider = {}
		for i = 0, fan - 1 do
			wider[i + 1] = to_bytes(format(need), cell(chunk, fan, i))
		end
		chunk, width = table.concat(wider), need
	end
	return sub(chunk, 1, at * width) .. to_bytes(format(width), v) .. sub(chunk, (at + 1) * width + 1)
end

-- some returns the first place, from one on, that counts anything.
local function some(chunk, fan, from)
	local width = #chunk / fan
	local at = find(chunk, '[^%z]', from * width + 1)
	return at and floor((at - 1) / width)
end
