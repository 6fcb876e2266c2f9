-- A chunk is a string of counts, one for each of fan buckets, all of 1, 4 or 7 bytes.

local function format(width)
	return width == 4 and '<I4' or '<I7'
end

local function cell(chunk, fan, at)
	local width = #chunk / fan
	if width == 1 then
		return string.byte(chunk, at + 1)
	end
	return (from_bytes(format(width), chunk, at * width + 1))
end

local function packed(v, width)
	if width == 1 then
		return string.char(v)
	end
	return to_bytes(format(width), v)
end

-- with returns the chunk with another count at one place, wider if the count needs it.
local function with(chunk, fan, at, v)
	local width = #chunk / fan
	local need = v < 256 and 1 or v < 4294967296 and 4 or 7
	if need > width then
		local wider = {}
		for i = 0, fan - 1 do
			wider[i + 1] = packed(cell(chunk, fan, i), need)
		end
		chunk, width = table.concat(wider), need
	end
	return string.sub(chunk, 1, at * width) .. packed(v, width) .. string.sub(chunk, (at + 1) * width + 1)
end

-- upto returns the chunk with zeros behind one place.
local function upto(chunk, fan, at)
	local keep = (at + 1) * #chunk / fan
	return string.sub(chunk, 1, keep) .. string.rep('\0', #chunk - keep)
end

-- some returns the first place, from one on, that counts anything.
local function some(chunk, fan, from)
	local width = #chunk / fan
	local at = string.find(chunk, '[^%z]', from * width + 1)
	return at and floor((at - 1) / width)
end

-- append adds the counts from one place to another to a list.
local function append(list, chunk, fan, from, to)
	if #chunk == fan then
		local n = #list
		for i, v in ipairs({string.byte(chunk, from + 1, to + 1)}) do
			list[n + i] = v
		end
		return
	end
	for at = from, to do
		list[#list + 1] = cell(chunk, fan, at)
	end
end
