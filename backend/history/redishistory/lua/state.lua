-- Reads keys, or changes one if it holds an expected value (compare and swap).
--
-- KEYS: these, or the one. ARGV: nothing, or the expected value, the new one ('' for no key), and its TTL in
-- milliseconds, 0 for none. Reply: the value of each key.

local held = {}
for i, key in ipairs(KEYS) do
	held[i] = redis.call('GET', key) or ''
end
if not ARGV[1] or held[1] ~= ARGV[1] then
	return held
end
redis.call('DEL', KEYS[1]) -- so that a full server allows SET
if ARGV[2] ~= '' and ARGV[3] ~= '0' then
	redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
elseif ARGV[2] ~= '' then
	redis.call('SET', KEYS[1], ARGV[2])
end
return {ARGV[2]}
