-- The quick way through a check: it counts under one limit, in a bucket that is live, and nothing else has to be done.
-- Nearly all checks are so. It returns nothing, and has changed nothing, where the general way is needed.

local function answer(allowed, before, remaining, reset, retry)
	return to_bytes('<BBdddd', allowed, 0, before, remaining, reset, retry)
end

-- keep makes sure that the key lasts until a moment.
local function keep(key, moment, now)
	local needed = math.ceil((moment - now) / 1000)
	if call('PTTL', key) < needed then
		call('PEXPIRE', key, needed)
	end
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
	local reset, after, allowed = (live + 1) * width - now, before, before + hits <= requests
	if allowed or always == 1 then
		after = min(before + hits, MAX_COUNT)
		call('HSET', key, name, to_bytes('<I7I7', live, after))
		if before == 0 then
			keep(key, (live + 1) * width, now)
		end
	end
	if allowed then
		return answer(1, before, requests - after, reset, 0)
	end
	return answer(0, before, 0, reset, reset)
end

local function quick_sliding(key, name, header, hits, always, requests, window, width, now)
	local total, oldest, newest, swept, at, live = 0, 0, 0, 0, 0, 0
	local now_at = floor(now / width)
	if header then
		total, oldest, newest, swept, at, live = from_bytes('<I7I7I7I7I7I7', header)
		if live > 0 and at ~= now_at or total > 0 and (newest > now_at or oldest < floor((now - window) / width)) then
			return
		end
	end
	local before = total + live
	local first = total > 0 and oldest or now_at
	if before + hits > requests then
		local left = requests - hits
		if always == 1 or left ~= before - 1 and left >= live then
			return
		end
		local wait = ((left == before - 1 and first or at) + 1) * width + window - now
		return answer(0, before, 0, wait, wait)
	end
	if before + hits > MAX_COUNT then
		return
	end
	call('HSET', key, name, to_bytes('<I7I7I7I7I7I7', total, oldest, newest, swept, now_at, live + hits))
	if live == 0 then
		keep(key, (now_at + 1) * width + window, now)
	end
	return answer(1, before, requests - before - hits, (first + 1) * width + window - now, 0)
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
	if log.grown and log.alone then
		call('PEXPIRE', key, math.ceil(window / 1000))
	elseif log.grown then
		keep(key, log:expires(), now)
	end
	if fits then
		return answer(1, before, requests - before - hits, log.first.time + window - now, 0)
	end
	local wait = log:hold(now, requests - hits) - now
	return answer(0, before, 0, wait, wait)
end

local function quick(key, packed, now)
	local op, hits, count, algorithm, always, requests, window, width, name =
		from_bytes('<BI7BBBI7I7I7Bc0', packed)
	if op ~= COUNT or count ~= 1 or hits == 0 or hits > requests then
		return
	end
	if algorithm == LOG then
		return quick_log(key, name, hits, always, requests, window, now)
	end
	local header = call('HGET', key, name)
	if algorithm == FIXED then
		return quick_fixed(key, name, header, hits, always, requests, width, now)
	end
	return quick_sliding(key, name, header, hits, always, requests, window, width, now)
end
