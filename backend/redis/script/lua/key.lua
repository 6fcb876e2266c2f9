-- The key, a hash, of the present check. Its changes are written together at the end of the check.

local ERASED = {} -- marks a field to remove

local key
local chunks                    -- cached chunks; false: no such chunk; nil: not read yet
local touched, touches = {}, 0  -- names of chunks that were changed
local written, writes = {}, 0   -- names of fields and their values, one after the other
local erased, erasures = {}, 0  -- names of fields
local stepped                   -- the clock has stepped back over buckets with leases

-- clear_key clears the cache of the last key, and changes that an error left unwritten.
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

-- round_up_expiry returns when a key may expire whose hits leave their window at a moment: up to a sixteenth of the window
-- later, so that few new buckets have to extend it.
local function round_up_expiry(moment, window)
	local part = window / 16
	return ceil(moment / part) * part
end

-- jitter returns by how many milliseconds the key's TTL is longer than needed, from its hash tag. Windows of all keys end at
-- the same moments; without it the server would have to remove all of them at once.
local function jitter()
	return (byte(key, 7) * 64 + byte(key, 8)) % 1000
end

-- extend_ttl extends the key's TTL to a moment. If it was shorter, it returns when the key would have expired: the fields of
-- dropped limits would now outlive their time, and have to be trimmed.
local function extend_ttl(moment, now)
	local needed, left = ceil((moment - now) / 1000), call('PTTL', key)
	if left < needed then
		call('PEXPIRE', key, needed + jitter())
		return left >= 0 and now + left * 1000
	end
end

-- inconsistent raises an error because fields contradict each other. Somebody has changed them, and a script must not search
-- without end.
local function inconsistent()
	error('the fields of ' .. key .. ' do not fit each other')
end
