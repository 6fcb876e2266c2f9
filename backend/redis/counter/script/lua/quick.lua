-- The quick way through a check: it counts under one limit, and at most one chunk loses its oldest and one gets its
-- newest bucket. Nearly all checks are so. It returns no decision, and has changed nothing, where the general way is
-- needed.

local function answer(allowed, before, remaining, reset, retry)
	return to_bytes('<BBdddd', allowed, 0, before, remaining, reset, retry)
end

-- kept is until when a key is kept for hits that leave a sliding window at a moment: up to a sixteenth of the window
-- longer, so that few of the buckets that begin have to prolong it.
local function kept(moment, window)
	local part = window / 16
	return ceil(moment / part) * part
end

-- keep makes sure that the key lasts until a moment. It returns until when it would have lasted, if it was to end before:
-- what dropped limits have left in it would now outlive its time, and is to be trimmed.
local function keep(key, moment, now)
	local needed, left = ceil((moment - now) / 1000), call('PTTL', key)
	if left < needed then
		call('PEXPIRE', key, needed)
		return left >= 0 and now + left * 1000
	end
end

-- MANY is how many fields of a hash are looked at in one check.
local MANY = 128

-- header_of is the name of the header that a chunk or a row of blanks belongs to, nil for other fields.
local function header_of(field)
	return string.match(field, '^(s%w+[tsmhd])%d....$') or string.match(field, '^(s%w+[tsmhd])0$')
end

-- strangers says whether a hash, whose end was moved, may hold fields of other limits than those of these names. It looks
-- closely once in a window, but always where there are many fields: of these a check sees few.
local function strangers(key, own, window, ended, ends)
	local fields = call('HLEN', key)
	if fields == 1 or fields > MANY then
		return fields > 1
	elseif floor(ended / window) == floor(ends / window) then
		return false
	end
	for _, field in ipairs(call('HKEYS', key)) do
		if not own[field] and not own[header_of(field) or field] then
			return true
		end
	end
	return false
end

local function quick_fixed(key, name, header, hits, always, requests, width, now)
	local live, before = floor(now / width), 0
	if header then
		local bucket, held = from_bytes('<I7I7', header)
		if bucket > live then
			return
		end
		before = bucket == live and held or 0
	end
	local reset, after, allowed, stale = (live + 1) * width - now, before, before + hits <= requests, false
	if allowed or always == 1 then
		after = min(before + hits, MAX_COUNT)
		call('HSET', key, name, to_bytes('<I7I7', live, after))
		if before == 0 then
			local ended = keep(key, (live + 1) * width, now)
			stale = ended and strangers(key, {[name] = true}, width, ended, (live + 1) * width)
		end
	end
	if allowed then
		return answer(1, before, requests - after, reset, 0), stale
	end
	return answer(0, before, 0, reset, reset), stale
end

-- drained is until when a key is kept for a token bucket: as for hits that leave a sliding window when nothing in it
-- counts any more. The two microseconds are more than doubles may be wrong.
local function drained(start, held, rate, window)
	local moment = start + held * window / rate + 2
	return kept(moment < MAX_COUNT and moment or MAX_COUNT, window)
end

local function quick_bucket(key, name, header, hits, always, burst, rate, window, now)
	local before, held, age, ends = 0, 0, 0, 0
	if header then
		local was, last
		was, last, age, held = from_bytes('<I7I7I7I7', header)
		if was ~= rate or last > now then
			return
		end
		ends = drained(last - age, held, rate, window)
		before, held, age = level_at(held, now - last + age, rate, window)
		if before == 0 then
			held, age = 0, 0
		end
	end
	local start = now - age
	if before + hits > burst then
		if always == 1 then
			return
		end
		local wait = when_leaked(start, held - (burst - hits), rate, window) - now
		return answer(0, before, 0, wait, wait)
	end
	held = held + hits
	call('HSET', key, name, to_bytes('<I7I7I7I7', rate, now, age, held))
	local needed, stale = drained(start, held, rate, window), false
	if needed ~= ends then
		local ended = keep(key, needed, now)
		stale = ended and strangers(key, {[name] = true}, window, ended, needed)
	end
	return answer(1, before, burst - before - hits, when_leaked(start, held - before - hits + 1, rate, window) - now, 0),
		stale
end

-- finest returns the name of the chunk that holds a finest bucket, its first bucket, and the chunk, false if it is
-- lost.
local function finest(key, name, fan, bucket)
	local number = floor(bucket / fan)
	name = name .. '1' .. to_bytes('<I4', number)
	return name, number * fan, call('HGET', key, name)
end

-- leave takes the buckets before from off the sum, and returns it and the oldest that is left, if both are in one
-- chunk.
local function leave(key, name, fan, total, oldest, from)
	if floor(oldest / fan) ~= floor(from / fan) then
		return
	end
	local _, begin, chunk = finest(key, name, fan, oldest)
	local first = chunk and some(chunk, fan, from - begin)
	if not first then
		return
	end
	for at = oldest - begin, from - begin - 1 do
		total = total - cell(chunk, fan, at)
	end
	return total, begin + first
end

-- over puts a live bucket that is over into its chunk, and returns that and its name, if the newest bucket is in it,
-- too.
local function over(key, name, fan, newest, bucket, live)
	if floor(newest / fan) ~= floor(bucket / fan) then
		return
	end
	local chunk_name, begin, chunk = finest(key, name, fan, bucket)
	if chunk then
		return with(chunk, fan, bucket - begin, cell(chunk, fan, bucket - begin) + live), chunk_name
	end
end

local function quick_sliding(key, name, header, hits, always, requests, window, width, fan, now)
	local total, oldest, newest, swept, at, live = 0, 0, 0, 0, 0, 0
	local now_at, from, left = floor(now / width), floor((now - window) / width), false
	if header then
		total, oldest, newest, swept, at, live = from_bytes('<I7I7I7I7I7I7', header)
		if live > 0 and (at > now_at or at < from) or total > 0 and newest > now_at then
			return
		end
		if total > 0 and oldest < from then
			total, oldest = leave(key, name, fan, total, oldest, from)
			if not total then
				return
			end
			left = true
		end
	end
	local before = total + live
	if before + hits > requests then
		local most = requests - hits
		if left or always == 1 or most ~= before - 1 and most >= live then
			return
		end
		local wait = ((most == before - 1 and total > 0 and oldest or at) + 1) * width + window - now
		return answer(0, before, 0, wait, wait)
	end
	if before + hits > MAX_COUNT then
		return
	end
	local first = total > 0 and oldest or live > 0 and at or now_at
	if live > 0 and at ~= now_at then
		local chunk, chunk_name
		if total > 0 then
			chunk, chunk_name = over(key, name, fan, newest, at, live)
		end
		if not chunk then
			return
		end
		call('HSET', key, name, to_bytes('<I7I7I7I7I7I7', before, oldest, at, swept, now_at, hits), chunk_name, chunk)
	else
		call('HSET', key, name, to_bytes('<I7I7I7I7I7I7', total, oldest, newest, swept, now_at, live + hits))
	end
	local stale = false
	if live == 0 or at ~= now_at then
		local ends = kept((now_at + 1) * width + window, window)
		if live == 0 or ends ~= kept((at + 1) * width + window, window) then
			local ended = keep(key, ends, now)
			stale = ended and strangers(key, {[name] = true}, window, ended, ends)
		end
	end
	return answer(1, before, requests - before - hits, (first + 1) * width + window - now, 0), stale
end

local function quick_log(key, name, hits, always, requests, window, now)
	local log = sliding_log({key = key}, {name = name, window = window})
	local before = log:sum(now)
	local fits = before + hits <= requests
	if not fits and always == 1 then
		return
	elseif fits then
		log:add(now, hits)
	end
	if log.changed then
		log:save()
	end
	local stale = false
	if log.grown and log.alone then
		call('PEXPIRE', key, ceil(window / 1000))
	elseif log.grown then
		stale = keep(key, log:expires(), now)
	end
	if fits then
		return answer(1, before, requests - before - hits, log.first.time + window - now, 0), stale
	end
	local wait = log:hold(now, requests - hits) - now
	return answer(0, before, 0, wait, wait)
end

-- quick returns the decision, whether the key may hold what dropped limits have left, and the header if it has read it.
local function quick(key, packed, now)
	local op, hits, count, algorithm, always, requests, window, width, name, _, fans =
		from_bytes('<BI7BBBI7I7I7Bc0B', packed)
	if op ~= COUNT or count ~= 1 or hits == 0 or hits > requests then
		return
	end
	if algorithm == LOG then
		return quick_log(key, name, hits, always, requests, window, now)
	end
	local header, decision, stale = call('HGET', key, name)
	if algorithm == FIXED then
		decision, stale = quick_fixed(key, name, header, hits, always, requests, width, now)
	elseif algorithm == BUCKET then
		decision, stale = quick_bucket(key, name, header, hits, always, requests, width, window, now)
	else
		decision, stale = quick_sliding(key, name, header, hits, always, requests, window, width, byte(packed, fans), now)
	end
	return decision, stale, header
end
