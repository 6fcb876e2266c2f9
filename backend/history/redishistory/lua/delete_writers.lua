-- Deletes the positions of writers that have not written for long.
--
-- KEYS: format, writers. ARGV: format, time, how long in seconds, writers.
-- Reply: deleted.

local now = seconds(ARGV[2])
for i = 4, #ARGV do
	local at = string.match(call('HGET', KEYS[2], ARGV[i]) or '', ' (%d+)$')
	if at and now - at >= ARGV[3] + 0 then
		call('HDEL', KEYS[2], ARGV[i])
	end
end
return {'deleted'}
