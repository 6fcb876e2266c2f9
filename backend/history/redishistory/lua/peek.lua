-- Returns what a job may have to do in a partition, so that an idle partition costs one call.
--
-- KEYS: format, ages, due, writers. ARGV: format, time, the second that the job goes by, if that is the earlier one.
-- Reply: peek, the second that counts, the ages that are noted or '', and how many series there are, how many of them
-- are due, 0 or 1, and how many writers. Where there should be writers and is something else, there are some.

local now = math.min(seconds(ARGV[2]), ARGV[3] + 0)
local due = call('ZRANGEBYSCORE', KEYS[3], '-inf', format('%.0f', now), 'LIMIT', '0', '1')
local writers = pcall('HLEN', KEYS[4])
return {'peek', now, call('GET', KEYS[2]) or '', call('ZCARD', KEYS[3]), #due, type(writers) == 'number' and writers or 1}
