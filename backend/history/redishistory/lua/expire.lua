-- Drops the days of a year that come before one of them. What they held is added to what has expired.
--
-- KEYS: format, series, the year's chunk, its peaks.
-- ARGV: format, time, the second from which all those days are to go, the version of the series' list of chunks that
-- was read, the chunk's name, the first day that stays.
-- Reply: expired, how many days, how many hits, and the first day that is left, -1 if none is; or why not.

if seconds(ARGV[2]) < ARGV[3] + 0 then
	return {'early'}
end
local series, days, name, first = KEYS[2], KEYS[3], ARGV[5], ARGV[6] + 0
local seen = call('HMGET', series, 'version', name, 'expired')
if (seen[1] or '') ~= ARGV[4] or not seen[2] then
	return {'stale'}
end
call('HLEN', KEYS[4])
local sums, trouble = counts(days)
if trouble then
	return {'damaged', days, trouble}
end
local gone, hits, left = {}, 0, -1
for i = 1, #sums, 2 do
	local day = sums[i] + 0
	if day < first then
		gone[#gone + 1] = sums[i]
		hits = plus(hits, sums[i + 1])
	elseif left < 0 or day < left then
		left = day
	end
end
hits = text(hits)
local expired = add(seen[3] or '0', hits)
if #gone > 0 then
	call('HDEL', days, unpack(gone))
	call('HDEL', KEYS[4], unpack(gone))
end
if left < 0 then
	call('HDEL', series, name)
end
if left < 0 or #gone > 0 then
	call('HSET', series, 'expired', expired, 'version', format('%.0f', (tonumber(ARGV[4]) or 0) + 1))
end
return {'expired', #gone, hits, left}
