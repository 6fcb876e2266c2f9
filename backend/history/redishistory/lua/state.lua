-- Reads a key, and changes it if it holds what it is thought to hold.
--
-- KEYS: the key. ARGV: nothing, or what it is thought to hold, what it should ('' is no key), the second from which on
-- it is too late for that, or '', and for how many milliseconds it is kept, or ''. Reply: what it holds, and the second.

local now = tonumber(redis.call('TIME')[1])
local held = redis.call('GET', KEYS[1]) or ''
local late = ARGV[1] and ARGV[3] ~= '' and now >= tonumber(ARGV[3])
if not ARGV[1] or held ~= ARGV[2] and (held ~= ARGV[1] or late) then
	return {held, now}
end
redis.call('DEL', KEYS[1]) -- which lets SET through on a full server
if ARGV[2] ~= '' and ARGV[4] ~= '' then
	redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[4])
elseif ARGV[2] ~= '' then
	redis.call('SET', KEYS[1], ARGV[2])
end
return {ARGV[2], now}
