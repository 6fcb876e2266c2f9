-- The state of the key of the present check, a hash. All changes of it are written together at the end of the check.

local ERASED = {} -- marks a field to remove

local key
local chunks                    -- cached chunks; false: no such chunk; nil: not read yet
local touched, touches = {}, 0  -- names of chunks that were changed
local written, writes = {}, 0   -- names of fields and their values, one after the other
local erased, erasures = {}, 0  -- names of fields
local stepped                   -- the clock has stepped back over buckets with leases

-- clear_key clears the cached chunks of the last key, and the changes that an error left unwritten.
local function clear_key()
	chunks, touches, writes, erasures = nil, 0, 0, 0
end

-- get returns a chunk with the changes of this check.
local function get(name)
	chunks = chunks or {}
	local chunk = chunks[name]
	if chunk == nil then
		chunk = call('HGET', key, name)
		chunks[name] = chunk
	end
	return chunk
end

-- write notes a field to set at the end of the check.
local function write(name, value)
	written[writes + 1], written[writes + 2], writes = name, value, writes + 2
end

-- erase notes a field to remove at the end of the check.
local function erase(name)
	erasures = erasures + 1
	erased[erasures] = name
end

-- put changes a chunk, or removes it if it is false.
local function put(name, chunk)
	chunks = chunks or {}
	if chunks[name] ~= chunk then
		chunks[name] = chunk
		touches = touches + 1
		touched[touches] = name
	end
end

-- save writes the changes of the check.
local function save()
	for i = 1, touches do
		local name = touched[i]
		if chunks[name] then
			write(name, chunks[name])
		else
			erase(name)
		end
	end
	if writes > 0 then
		call('HSET', key, unpack(written, 1, writes))
	end
	if erasures > 0 then
		call('HDEL', key, unpack(erased, 1, erasures))
	end
	clear_key()
end

-- round_up_expiry returns the expiry of a key whose hits leave their window at a moment. It is up to a sixteenth of the
-- window later than the moment, so that few new buckets have to extend it.
local function round_up_expiry(moment, window)
	local part = window / 16
	return ceil(moment / part) * part
end

-- jitter returns the milliseconds by which the key's TTL is longer than needed, from the key's hash tag. The windows of
-- all keys end at the same moments; without the jitter the server would have to remove all keys at once.
local function jitter()
	return (byte(key, 7) * 64 + byte(key, 8)) % 1000
end

-- extend_ttl extends the key's TTL to a moment. If the key would have expired before, extend_ttl returns when: fields
-- of dropped limits would have expired with it, and now have to be trimmed.
local function extend_ttl(moment, now)
	local needed, left = ceil((moment - now) / 1000), call('PTTL', key)
	if left < needed then
		call('PEXPIRE', key, needed + jitter())
		return left >= 0 and now + left * 1000
	end
end

-- inconsistent raises an error because fields contradict each other, as after a change by another program: a search in
-- them might not end.
local function inconsistent()
	error('the fields of ' .. key .. ' do not fit each other')
end
