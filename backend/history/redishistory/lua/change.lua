-- Changes the chunks of a series to what was worked out from what they held: all of it, once. Coarse chunks change only
-- together with the version of the list of chunks; minutes, to which writers add at any time, are compared.
--
-- KEYS: format, due, series, and the hashes that change.
-- ARGV: format, time, the second at which the change was worked out, the version of the series' list of chunks that was
-- read, the series' name, when it is due next after this ('' if nothing is left of it), by how much the number of its points changes, what has expired of it
-- ('' if that does not change); in JSON the names of the chunks that go, and those of the ones that come; in JSON for each
-- hash how many fields it must hold, or -1, the fields that go, what these must hold if the number is not -1, and the
-- fields that are set with their values.
-- Reply: changed; or why not.

if seconds(ARGV[2]) < ARGV[3] + 0 then
	return {'early'}
end
local series = KEYS[3]
if (call('HGET', series, 'version') or '') ~= ARGV[4] then
	return {'stale'}
end
call('ZCARD', KEYS[2]) -- like HLEN, it fails before anything is written, if the key is of another type
local lists, changes = cjson.decode(ARGV[9]), cjson.decode(ARGV[10])
for i, change in ipairs(changes) do
	local key, holds, going, held = KEYS[3 + i], change[1], change[2], change[3]
	local fields = call('HLEN', key)
	if holds >= 0 then
		if fields ~= holds then
			return {'stale'}
		end
		local values = #going > 0 and call('HMGET', key, unpack(going)) or {}
		for n, value in ipairs(held) do
			if values[n] ~= value then
				return {'stale'}
			end
		end
	end
end

if ARGV[6] == '' then
	call('DEL', unpack(KEYS, 3))
	call('ZREM', KEYS[2], ARGV[5])
	return {'changed'}
end

-- First the removal: it is allowed to a server that is full, and what follows it in a script then is too.
for i, change in ipairs(changes) do
	if #change[2] > 0 then
		call('HDEL', KEYS[3 + i], unpack(change[2]))
	end
end
if #lists[1] > 0 then
	call('HDEL', series, unpack(lists[1]))
end
for i, change in ipairs(changes) do
	if #change[4] > 0 then
		call('HSET', KEYS[3 + i], unpack(change[4]))
	end
end
for _, name in ipairs(lists[2]) do
	call('HSET', series, name, '')
end
if ARGV[8] ~= '' then
	call('HSET', series, 'expired', ARGV[8])
end
local points = pcall('HINCRBY', series, 'points', ARGV[7])
if type(points) == 'table' or points < 0 then
	call('HSET', series, 'points', '0')
end
call('HSET', series, 'version', format('%.0f', (tonumber(ARGV[4]) or 0) + 1))
call('ZADD', KEYS[2], ARGV[6], ARGV[5])
return {'changed'}
