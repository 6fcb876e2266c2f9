-- Reads the table of a ring's node, and stores one if there is none or an older one.
--
-- KEYS: placement. ARGV: nothing, or one to store and its version. Reply: what is stored, or ''.

local held = redis.call('GET', KEYS[1]) or ''
local isTable, version = string.find(held, '^{'), string.match(held, '"version":(%d+)')
if ARGV[1] and (held == '' or tonumber(isTable and version or 0) < tonumber(ARGV[2])) then
	redis.call('DEL', KEYS[1]) -- so that a full server allows SET
	redis.call('SET', KEYS[1], ARGV[1])
	return {ARGV[1]}
end
return {held}
