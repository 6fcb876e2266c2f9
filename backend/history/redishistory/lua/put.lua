-- Makes keys of a partition what they were at another node, while it is a mover's.
--
-- KEYS: format, and those. ARGV: what the format must be, and for each of those its dump, '' to remove it. Reply: put, or
-- what the format is.

local held = redis.call('GET', KEYS[1]) or ''
if held ~= ARGV[1] then
	return {'lost', held}
end
for i = 2, #KEYS do
	if ARGV[i] == '' then
		redis.call('DEL', KEYS[i])
	else
		redis.call('RESTORE', KEYS[i], '0', ARGV[i], 'REPLACE')
	end
end
return {'put'}
