-- Stores when a series is due next, unless its version has changed since that was computed.
--
-- KEYS: format, due, series. ARGV: format, time, version, the series' name, when.
-- Reply: due, or stale.

if (call('HGET', KEYS[3], 'version') or '') ~= ARGV[3] then
	return {'stale'}
end
call('ZADD', KEYS[2], ARGV[5], ARGV[4])
return {'due'}
