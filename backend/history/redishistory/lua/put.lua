-- Runs a command on keys of a partition, if the partition has a mover's state.
--
-- KEYS: format, and the keys. ARGV: the expected format, and the command with its arguments; for restore the dump of
-- each key, '' for one that does not exist. Reply: put, or lost and the present format.

local held = redis.call('GET', KEYS[1]) or ''
if held ~= ARGV[1] then
	return {'lost', held}
end
for i = 2, #KEYS do
	if ARGV[2] ~= 'restore' then
		redis.call(ARGV[2], KEYS[i], unpack(ARGV, 3))
	elseif ARGV[i + 1] ~= '' then
		redis.call('RESTORE', KEYS[i], '0', ARGV[i + 1], 'REPLACE')
	end
end
return {'put'}
