-- The key of the check that is being decided, a hash. What a check changes is written together at its end.

local ERASED = {} -- in place of a field that is to be removed

local key
local chunks                    -- what is known of chunks: false if there is none; nil if nothing is known
local touched, touches = {}, 0  -- names of chunks that were changed
local written, writes = {}, 0   -- names of fields and their values, one after the other
local erased, erasures = {}, 0  -- names of fields
local stepped                   -- the clock has stepped back over buckets with leases

-- clear_key clears what is known of the last key, and what an error has left unwritten.
local function clear_key()
	chunks, touches, writes, erasures = nil, 0, 0, 0
end

-- get returns a chunk as the check has left it.
local function get(name)
	chunks = chunks or {}
	local chunk = chunks[name]
	if chunk == nil then
		chunk = call('HGET', key, name)
		chunks[name] = chunk
	end
	return chunk
end

-- write sets a field at the end of the check.
local function write(name, value)
	written[writes + 1], written[writes + 2], writes = name, value, writes + 2
end

-- erase removes a field at the end of the check.
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

-- save writes what the check has changed.
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

-- kept is until when a key is kept for hits that leave a window at a moment: up to a sixteenth of the window longer, so
-- that few of the buckets that begin have to prolong it.
local function kept(moment, window)
	local part = window / 16
	return ceil(moment / part) * part
end

-- spread is how many milliseconds longer than it needs the key is kept, by its hash tag: windows of all keys end at the
-- same moments, and the server would else have all of them to remove at once.
local function spread()
	return (byte(key, 7) * 64 + byte(key, 8)) % 1000
end

-- keep makes sure that the key lasts until a moment. It returns until when it would have lasted, if it was to end
-- before: what dropped limits have left in it would now outlive its time, and is to be trimmed.
local function keep(moment, now)
	local needed, left = ceil((moment - now) / 1000), call('PTTL', key)
	if left < needed then
		call('PEXPIRE', key, needed + spread())
		return left >= 0 and now + left * 1000
	end
end

-- broken is raised where fields do not fit each other. Somebody has changed them, and a script must never search
-- without end.
local function broken()
	error('the fields of ' .. key .. ' do not fit each other')
end
