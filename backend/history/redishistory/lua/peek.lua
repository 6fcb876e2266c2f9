-- Returns whether a job has work in a partition, so that an idle partition costs one call.
--
-- KEYS: format, ages, due, writers. ARGV: format, time, the time of the job. Reply: peek, the earlier of the two times,
-- the stored ages or '', the number of series, whether one is due (0 or 1), and the number of writers (1 if that key
-- has a wrong type).

local now = math.min(seconds(ARGV[2]), ARGV[3] + 0)
local due = call('ZRANGEBYSCORE', KEYS[3], '-inf', format('%.0f', now), 'LIMIT', '0', '1')
local writers = pcall('HLEN', KEYS[4])
return {'peek', now, call('GET', KEYS[2]) or '', call('ZCARD', KEYS[3]), #due, type(writers) == 'number' and writers or 1}
