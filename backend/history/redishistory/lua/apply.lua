-- Counts a batch as a whole or not at all. It adds first and undoes everything after an error, as checking first would
-- double the cost.
--
-- KEYS: format, writers, due, for each increment its series and its chunk, and for each coarse one its chunk's peaks.
-- ARGV: format, time, writer, number, the number that it follows, the age of minutes in seconds, the most points of a
-- series; in JSON for each increment its chunk's number, its index in the chunk, and its hits; in JSON for each coarse
-- increment its position among all, the name of its chunk, when that is due, and its largest minute; for each increment
-- the name of its series. Reply: applied, duplicate or gap, the last number of the writer, and how many hits of that
-- batch were refused; for applied also the increments whose series then has too many points. Or hour and the server's
-- present one, if increments belong into its chunk, which is not among the keys.

local now = seconds(ARGV[2])
local writer, seq, after = ARGV[3], ARGV[4], ARGV[5]
local position = call('HGET', KEYS[2], writer) or '0'
local last, refusedOfLast = string.match(position, '^%d+'), string.match(position, '^%d+ (%d+) ') or '0'
if not last then
	return {'damaged', KEYS[2], writer .. ' has no position'}
elseif not less(last, seq) then
	return {'duplicate', last, refusedOfLast}
elseif less(last, after) then
	return {'gap', last, refusedOfLast}
end
call('ZCARD', KEYS[3]) -- fails before anything is written, if it is no such set

local increments = cjson.decode(ARGV[8])
local count, present = #increments / 3, floor(now / 60)
local minutes = {[0] = '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '10', '11', '12', '13', '14', '15', '16', '17',
	'18', '19', '20', '21', '22', '23', '24', '25', '26', '27', '28', '29', '30', '31', '32', '33', '34', '35', '36',
	'37', '38', '39', '40', '41', '42', '43', '44', '45', '46', '47', '48', '49', '50', '51', '52', '53', '54', '55',
	'56', '57', '58', '59'}
local refused, overfull = {}, {}
local refusedHits = '0'
local newMinute, newChunk = {}, {} -- increments that made a point, and those of them that made a chunk

local coarse = {} -- by increment, the further arguments of those wider than a minute
local parts = cjson.decode(ARGV[9])
for i = 1, #parts, 4 do
	local n = parts[i]
	coarse[n] = {name = parts[i + 1], due = parts[i + 2], peak = parts[i + 3], peaks = KEYS[3 + 2 * count + (i + 3) / 4]}
	increments[3 * n - 1] = format('%.0f', increments[3 * n - 1])
end
for i = 1, 3 * count, 3 do
	if not coarse[(i + 2) / 3] then
		local ahead = 60 * increments[i] + increments[i + 1] - present
		if ahead > 0 then
			increments[i + 1] = increments[i + 1] - ahead
		end
		local minute = minutes[increments[i + 1]]
		if not minute then
			return {'hour', floor(present / 60)}
		end
		increments[i + 1] = minute
	end
end

-- subtract subtracts a count from a field, and removes the field if it becomes 0.
local function subtract(key, field, hits)
	if call('HINCRBY', key, field, '-' .. hits) == 0 then
		call('HDEL', key, field)
	end
end

-- undo subtracts the increments up to the n-th, except refused ones.
local function undo(n)
	local skip = {}
	for _, k in ipairs(refused) do
		skip[k] = true
	end
	for k = 1, n do
		if not skip[k] then
			subtract(KEYS[2 * k + 2], 'total', increments[3 * k])
			subtract(KEYS[2 * k + 3], increments[3 * k - 1], increments[3 * k])
		end
	end
end

-- broken returns the reply after an error: damaged if a key has a wrong type or a field is no number. Any other error
-- is that of a server that refuses to write, and has not written.
local function broken(key, failed)
	if find(failed.err, 'WRONGTYPE') or find(failed.err, 'not an integer') or find(failed.err, 'overflow') then
		return {'damaged', key, failed.err}
	end
	return failed
end

for n = 1, count do
	local series, chunk, minute, hits = KEYS[2 * n + 2], KEYS[2 * n + 3], increments[3 * n - 1], increments[3 * n]
	local total = pcall('HINCRBY', series, 'total', hits)
	if type(total) == 'table' then
		undo(n - 1)
		return broken(series, total)
	end
	if total > 9e17 and #call('HGET', series, 'total') > 18 then
		call('HINCRBY', series, 'total', '-' .. hits)
		refused[#refused + 1] = n
		coarse[n] = nil
		refusedHits = add(refusedHits, hits)
	else
		local sum = pcall('HINCRBY', chunk, minute, hits)
		if type(sum) == 'table' then
			subtract(series, 'total', hits)
			undo(n - 1)
			return broken(chunk, sum)
		end
		if sum < 9e15 and sum == hits + 0 or sum >= 9e15 and call('HGET', chunk, minute) == hits then
			newMinute[#newMinute + 1] = n
			newChunk[n] = call('HLEN', chunk) == 1
		end
	end
end

-- The rest cannot fail.

-- bump adds 1 to a field that counts nothing of the history. A damaged field begins again with 1.
local function bump(key, field)
	local value = pcall('HINCRBY', key, field, '1')
	if type(value) == 'table' then
		call('HSET', key, field, '1')
		return 1
	end
	return value
end

-- changed notes that a series has other chunks than before, or other content in coarse ones.
local function changed(series)
	if bump(series, 'version') == 1 then -- a series that was removed and comes again must not have a version twice
		call('HSET', series, 'version', format('%.0f', now))
	end
end

local maxPoints = tonumber(ARGV[7])
for _, n in ipairs(newMinute) do
	local series, wide = KEYS[2 * n + 2], coarse[n]
	if not (wide and find(wide.name, '^d')) and bump(series, 'points') > maxPoints then
		overfull[#overfull + 1] = n
	end
	if newChunk[n] then
		local hour = increments[3 * n - 2]
		call('HSET', series, wide and wide.name or 'm' .. hour, '')
		if not wide then
			changed(series)
			call('ZADD', KEYS[3], 'LT', 3600 * (hour + 1) + ARGV[6], ARGV[9 + n])
		end
	end
end
for i = 1, #parts, 4 do
	local n = parts[i]
	local wide, place = coarse[n], increments[3 * n - 1]
	if wide then
		local peak = pcall('HGET', wide.peaks, place) -- readers report a wrong type
		if not peak or type(peak) == 'string' and less(peak, wide.peak) then
			call('HSET', wide.peaks, place, wide.peak)
		end
		changed(KEYS[2 * n + 2])
		call('ZADD', KEYS[3], 'LT', format('%.0f', wide.due), ARGV[9 + n])
	end
end
if not heldFormat then
	call('SET', KEYS[1], known)
end
local entry = seq
if #refused > 0 then -- for the reply to a duplicate
	entry = seq .. ' ' .. refusedHits
end
call('HSET', KEYS[2], writer, entry .. ' ' .. format('%.0f', now))
return {'applied', seq, refusedHits, overfull}
