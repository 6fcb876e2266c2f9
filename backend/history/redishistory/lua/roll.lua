-- Moves a chunk of a series into the next tier: all of it, once. Whatever may be wrong is found before the first write.
--
-- KEYS: format, due, series, the chunk, its peaks (of minutes the chunk itself), the chunk that it goes to, that one's
-- peaks, and where its points may lie in two chunks also the second and its peaks.
-- ARGV: format, time, the second from which it is due, the version of the series' list of chunks that was read, the
-- series' name, when it is due next after this; the chunk's name, how many of its places make one of the next tier, how
-- many lie before its first one in the chunk that it goes to; 1 if that one's points are finer than a day; its name;
-- and for a second one the first place that lies in it, and its name.
-- Reply: rolled and how many points; or why not.

if seconds(ARGV[2]) < ARGV[3] + 0 then
	return {'early'}
end
local series, from, name = KEYS[3], KEYS[4], ARGV[7]
local seen = call('HMGET', series, 'version', name, 'points')
if (seen[1] or '') ~= ARGV[4] or not seen[2] then
	return {'stale'}
end
call('ZCARD', KEYS[2])
local sums, trouble = counts(from)
if trouble then
	return {'damaged', from, trouble}
end
local peaks = {} -- by place; of minutes, their counts
if KEYS[5] ~= from then
	local list
	list, trouble = counts(KEYS[5])
	if trouble then
		return {'damaged', KEYS[5], trouble}
	end
	for i = 1, #list, 2 do
		peaks[list[i]] = list[i + 1]
	end
end

-- The chunks that it goes to: which places get how much, in the order in which they are met.
local ratio, before, split = ARGV[8] + 0, ARGV[9] + 0, tonumber(ARGV[12] or math.huge)
local function part(key, tops, name)
	return {key = key, topsKey = tops, name = name, places = {}, sums = {}, tops = {}, at = {}}
end
local first, second = part(KEYS[6], KEYS[7], ARGV[11]), part(KEYS[8], KEYS[9], ARGV[13])
for i = 1, #sums, 2 do
	local place, count = sums[i], sums[i + 1]
	local to, into, peak = floor((place + before) / ratio), first, peaks[place] or count
	if to >= split then
		to, into = to - split, second
	end
	local at = into.at[to]
	if not at then
		at = #into.places + 1
		into.at[to], into.places[at], into.sums[at], into.tops[at] = at, format('%d', to), plus(0, count), peak
	else
		into.sums[at] = plus(into.sums[at], count)
		if less(into.tops[at], peak) then
			into.tops[at] = peak
		end
	end
end

-- What they have there already is read and added up before anything is written.
local grown = 0
for _, into in ipairs({first, second}) do
	if #into.places > 0 then
		into.there = call('HLEN', into.key) > 0
		local old = call('HMGET', into.key, unpack(into.places))
		local topped = call('HMGET', into.topsKey, unpack(into.places))
		into.stored, into.topped = {}, {}
		for i, place in ipairs(into.places) do
			local sum, top = text(into.sums[i]), into.tops[i]
			if old[i] then
				trouble = damage({place, old[i]})
				if trouble then
					return {'damaged', into.key, trouble}
				end
				sum = add(old[i], sum)
			else
				grown = grown + 1
			end
			if topped[i] and less(top, topped[i]) then
				top = topped[i]
			end
			into.stored[2 * i - 1], into.stored[2 * i] = place, sum
			into.topped[2 * i - 1], into.topped[2 * i] = place, top
		end
	end
end

-- First the removal: it is allowed to a server that is full, and what follows it in a script then is too.
call('DEL', from, KEYS[5])
call('HDEL', series, name)
for _, into in ipairs({first, second}) do
	if into.stored then
		call('HSET', into.key, unpack(into.stored))
		call('HSET', into.topsKey, unpack(into.topped))
		if not into.there then
			call('HSET', series, into.name, '')
		end
	end
end
local size = #sums / 2
local points = (tonumber(seen[3]) or 0) - size + grown * ARGV[10]
local version = (tonumber(ARGV[4]) or 0) + 1
call('HSET', series, 'points', format('%.0f', math.max(points, 0)), 'version', format('%.0f', version))
call('ZADD', KEYS[2], ARGV[6], ARGV[5])
return {'rolled', size}
