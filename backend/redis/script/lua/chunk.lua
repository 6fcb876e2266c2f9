-- A chunk is a string of fan counts, one for each bucket, all 1, 4 or 7 bytes wide.

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

-- with returns the chunk with a new count at a place, widened if the count needs it.
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

-- some returns the first place, from a given one on, with hits.
local function some(chunk, fan, from)
	local width = #chunk / fan
	local at = find(chunk, '[^%z]', from * width + 1)
	return at and floor((at - 1) / width)
end

-- sum adds up the counts from one place up to, but not including, another.
local function sum(chunk, fan, from, to)
	local hits = 0
	if #chunk == fan then
		while to - from >= 8 do -- one call for eight places
			local a, b, c, d, e, f, g, h = byte(chunk, from + 1, from + 8)
			hits, from = hits + a + b + c + d + e + f + g + h, from + 8
		end
	end
	for at = from, to - 1 do
		hits = hits + cell(chunk, fan, at)
	end
	return hits
end

-- upto returns the chunk with zeros after a place.
local function upto(chunk, fan, at)
	local left = (at + 1) * #chunk / fan
	return sub(chunk, 1, left) .. string.rep('\0', #chunk - left)
end

-- back_from removes newer hits from the places before a given one, newest first. It returns the last place that still has a
-- hit, and how many of its own are removed. More hits than these must be there.
local function back_from(chunk, fan, to, hits)
	local from = 0
	while to - from > 1 do
		local middle = floor((from + to) / 2)
		local behind = sum(chunk, fan, middle, to)
		if behind > hits then
			from = middle
		else
			to, hits = middle, hits - behind
		end
	end
	return from, hits
end
