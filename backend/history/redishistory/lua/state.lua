-- Reads keys, or changes one if it holds what it is thought to hold.
--
-- KEYS: these, or the one. ARGV: nothing, or what it is thought to hold, what it should ('' is no key), the second from
-- which on it is too late for that, or '', and for how many milliseconds it is kept, or ''. Reply: the second, and what
-- each holds.

local reply = {tonumber(redis.call('TIME')[1])}
for i, key in ipairs(KEYS) do
	reply[i + 1] = redis.call('GET', key) or ''
end
local held = reply[2]
local late = ARGV[1] and ARGV[3] ~= '' and reply[1] >= tonumber(ARGV[3])
if not ARGV[1] or held ~= ARGV[2] and (held ~= ARGV[1] or late) then
	return reply
end
redis.call('DEL', KEYS[1]) -- which lets SET through on a full server
if ARGV[2] ~= '' and ARGV[4] ~= '' then
	redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[4])
elseif ARGV[2] ~= '' then
	redis.call('SET', KEYS[1], ARGV[2])
end
return {reply[1], ARGV[2]}
