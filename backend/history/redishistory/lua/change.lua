-- Changes the chunks of a series as a whole, unless they have changed since the change was computed. Coarse chunks
-- change only together with the version of the series; minutes, to which writers add at any time, are compared.
--
-- KEYS: format, due, series, and the hashes of chunks that change. ARGV: format, time, the time for which the change
-- was computed, the version of the series that was read, the name of the series, when it is due next ('' if it is to be
-- removed), the change of the number of its points; in JSON for the series and each hash a hashChange (move.go). Reply:
-- changed, or early or stale.

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

-- Removals come first: a full server allows them, and then the other commands of the script too.
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
