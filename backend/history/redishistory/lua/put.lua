-- Runs a command on keys of a partition, while a mover holds it.
--
-- KEYS: format, and those. ARGV: what the format must be, and the command with its arguments; of restore for each key its
-- dump, '' of one that there is not. Reply: put, or what the format is.

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
