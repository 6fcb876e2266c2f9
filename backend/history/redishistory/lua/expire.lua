-- Drops the days of a year that come before one of them. What they held is added to what has expired.
--
-- KEYS: format, due, series, the year's chunk, its peaks.
-- ARGV: format, time, the second from which all those days are to go, the version of the series' list of chunks that
-- was read, the series' name, when it is due next after this, the chunk's name, the first day that stays.
-- Reply: expired, how many days and how many hits; or why not.

if seconds(ARGV[2]) < ARGV[3] + 0 then
	return {'early'}
end
local series, days, name, first = KEYS[3], KEYS[4], ARGV[7], ARGV[8] + 0
local seen = call('HMGET', series, 'version', name, 'expired')
if (seen[1] or '') ~= ARGV[4] or not seen[2] then
	return {'stale'}
end
call('ZCARD', KEYS[2])
call('HLEN', KEYS[5])
local sums, trouble = counts(days)
if trouble then
	return {'damaged', days, trouble}
end
local gone, hits = {}, 0
for i = 1, #sums, 2 do
	if sums[i] + 0 < first then
		gone[#gone + 1] = sums[i]
		hits = plus(hits, sums[i + 1])
	end
end
hits = text(hits)
local expired = add(seen[3] or '0', hits)
if #gone > 0 then
	call('HDEL', days, unpack(gone))
	call('HDEL', KEYS[5], unpack(gone))
end
if 2 * #gone == #sums then
	call('HDEL', series, name)
end
call('HSET', series, 'expired', expired, 'version', format('%.0f', (tonumber(ARGV[4]) or 0) + 1))
call('ZADD', KEYS[2], ARGV[6], ARGV[5])
return {'expired', #gone, hits}
