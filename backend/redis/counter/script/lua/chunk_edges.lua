-- More that is done with chunks.

-- upto returns the chunk with zeros behind one place.
local function upto(chunk, fan, at)
	local keep = (at + 1) * #chunk / fan
	return sub(chunk, 1, keep) .. string.rep('\0', #chunk - keep)
end

-- sum adds up the counts from one place to before another.
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

-- back_from returns the last place before one that holds a hit when some newer ones are left out, and how many of its
-- own are then left out. There are more hits before the one place than these.
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
