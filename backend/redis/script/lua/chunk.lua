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

-- set_cell returns the chunk with the count v at index at, in wider cells if the count needs them.
local function set_cell(chunk, fan, at, v)
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

-- first_nonzero returns the index of the first cell with hits, from an index on.
local function first_nonzero(chunk, fan, from)
	local width = #chunk / fan
	local at = find(chunk, '[^%z]', from * width + 1)
	return at and floor((at - 1) / width)
end

-- sum adds up the counts of the cells from one index up to, but not including, another.
local function sum(chunk, fan, from, to)
	local hits = 0
	if #chunk == fan then
		while to - from >= 8 do -- one call for eight cells
			local a, b, c, d, e, f, g, h = byte(chunk, from + 1, from + 8)
			hits, from = hits + a + b + c + d + e + f + g + h, from + 8
		end
	end
	for at = from, to - 1 do
		hits = hits + cell(chunk, fan, at)
	end
	return hits
end

-- zero_after returns the chunk with all cells after an index set to zero.
local function zero_after(chunk, fan, at)
	local left = (at + 1) * #chunk / fan
	return sub(chunk, 1, left) .. string.rep('\0', #chunk - left)
end

-- skip_newest skips hits in the cells before an index, newest first. It returns the index of the cell with the newest
-- hit that is not skipped, and how many hits of that cell are skipped. The cells must have more hits than these.
local function skip_newest(chunk, fan, to, hits)
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
