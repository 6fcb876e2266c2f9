-- Changes the chunks of a series to what was worked out from what they held: all of it, once. Coarse chunks change only
-- together with the version of the list of chunks; minutes, to which writers add at any time, are compared.
--
-- KEYS: format, due, series, and the hashes of chunks that change.
-- ARGV: format, time, the second at which the change was worked out, the version of the series' list of chunks that was
-- read, the series' name, when it is due next after this ('' if nothing is left of it), by how much the number of its
-- points changes; in JSON for the series and each hash a hashChange (move.go).
-- Reply: changed; or why not.

if seconds(ARGV[2]) < ARGV[3] + 0 then
	return {'early'}
end
local series = KEYS[3]
if (call('HGET', series, 'version') or '') ~= ARGV[4] then
	return {'stale'}
end
call('ZCARD', KEYS[2]) -- like HLEN, it fails before anything is written, if the key is of another type
local changes = cjson.decode(ARGV[8])
for i, change in ipairs(changes) do
	local key, removed = KEYS[2 + i], change.Remove
	local fields = call('HLEN', key)
	if change.Fields >= 0 then
		if fields ~= change.Fields then
			return {'stale'}
		end
		local values = #removed > 0 and call('HMGET', key, unpack(removed)) or {}
		for n, value in ipairs(change.RemovedValues) do
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
	if #change.Remove > 0 then
		call('HDEL', KEYS[2 + i], unpack(change.Remove))
	end
end
for i, change in ipairs(changes) do
	if #change.Set > 0 then
		call('HSET', KEYS[2 + i], unpack(change.Set))
	end
end
local points = pcall('HINCRBY', series, 'points', ARGV[7])
if type(points) == 'table' or points < 0 then
	call('HSET', series, 'points', '0')
end
call('HSET', series, 'version', format('%.0f', (tonumber(ARGV[4]) or 0) + 1))
call('ZADD', KEYS[2], ARGV[6], ARGV[5])
return {'changed'}
