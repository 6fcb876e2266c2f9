-- Reads the placement of a ring's node, and stores one where there is none.
--
-- KEYS: placement. ARGV: one to store, or nothing. Reply: what is stored, or ''.

if ARGV[1] then
	redis.call('SET', KEYS[1], ARGV[1], 'NX')
end
return {redis.call('GET', KEYS[1]) or ''}
