-- sliding_log: every instant at which something was counted, and the total of the limit's hits up to it.
--
-- The number of hits that count is the last total minus the total before the first instant in the window, so old
-- instants may be removed later. Totals wrap around at 2^53; fewer hits count at a time.
--
-- Instants are in numbered chunks: a total, then pairs of an instant and the total up to it, 7 bytes each. The last
-- chunk, the tail, is in the header until it is full, so most checks read and write only the header. The chunks from
-- first on are in use; those from low to before first, and from last to before high, are garbage, and are removed bit
-- by bit.

algorithms[3] = function(limit) -- descriptors.SlidingLog
	local ROUND = 9007199254740992
	local FULL = 7 + 32 * 14 -- bytes of a full chunk
	local SWEEP = 8          -- chunks that one check removes
	local HEADER = 6 * 7
	local name, window = limit.name, limit.window
	-- held = total - base is the number of hits that count; oldest and newest are the first and the last instant that
	-- count.
	local held, base, total, oldest, newest
	-- The numbers of the chunks, and the last chunk itself.
	local first, last, low, high, tail
	local changed, old_expiry

	local function name_of(number)
		return name .. ':' .. to_bytes('<I7', number)
	end

	local function chunk_of(number)
		return number == last and tail or get(name_of(number)) or inconsistent()
	end

	-- seek finds the first counted instant after a moment, or the first up to which so many hits count. It returns the
	-- number of its chunk, its index there and the chunk.
	local function seek(moment, hits)
		local function before(chunk, at)
			local time, total_then = from_bytes('<I7I7', chunk, 14 * at - 6)
			return time < oldest or time <= moment and (total_then - base) % ROUND < hits
		end
		local from, to, number = first, last, first -- often it is in the first one
		while from < to do
			local chunk = chunk_of(number)
			if before(chunk, (#chunk - 7) / 14) then
				from = number + 1
			else
				to = number
			end
			number = floor((from + to) / 2)
		end
		local chunk = chunk_of(from)
		local left, right = 1, (#chunk - 7) / 14
		while left < right do
			local middle = floor((left + right) / 2)
			if before(chunk, middle) then
				left = middle + 1
			else
				right = middle
			end
		end
		return from, left, chunk
	end

	local function clear()
		tail, base, held, first = to_bytes('<I7', total), total, 0, last
	end

	-- advance drops instants that have left the window. If the clock stepped back, it merges later instants into now.
	local function advance(now)
		changed = true
		if newest > now and oldest >= now then
			first, oldest = last, now
			tail = to_bytes('<I7I7I7', base, now, total)
		elseif newest > now then
			local number, at, chunk = seek(now - 1, ROUND)
			last = number
			tail = sub(chunk, 1, 14 * at - 7) .. to_bytes('<I7I7', now, total)
		end
		newest = min(newest, now)
		local left = now - window
		if newest <= left then
			clear()
		elseif oldest <= left then
			local number, at, chunk = seek(left, ROUND)
			first = number
			base, oldest = from_bytes('<I7I7', chunk, 14 * at - 13)
			held = (total - base) % ROUND
		end
	end

	function limit.load(now)
		changed, old_expiry = false, false
		local header = call('HGET', key, name)
		if not header then
			held, base, total, oldest, newest = 0, 0, 0, 0, 0
			first, last, low, high, tail = 0, 0, 0, 0, '\0\0\0\0\0\0\0'
			return 0
		end
		base, oldest, first, last, low, high = from_bytes('<I7I7I7I7I7I7', header)
		tail = sub(header, HEADER + 1)
		newest, total = 0, base
		if #tail > 7 then
			newest, total = from_bytes('<I7I7', tail, #tail - 13)
		end
		held = (total - base) % ROUND
		if held > 0 and (newest > now or oldest <= now - window) then
			advance(now)
		end
		return held
	end

	function limit.expiry()
		return held > 0 and round_up_expiry(newest + window, window) or 0
	end

	local function add(now, hits)
		local was = limit.expiry()
		local after = (total - (ROUND - hits)) % ROUND
		if held > 0 and newest == now then
			tail = sub(tail, 1, -8) .. to_bytes('<I7', after)
		elseif #tail < FULL then
			tail = tail .. to_bytes('<I7I7', now, after)
		else
			put(name_of(last), tail)
			last = last + 1
			high = max(high, last)
			tail = to_bytes('<I7I7I7', total, now, after)
		end
		if held == 0 then
			oldest = now
		end
		held, newest, total, changed = held + hits, now, after, true
		old_expiry = limit.expiry() ~= was and was
	end

	-- refund removes all instants after the one with the last remaining hit, and a part of that one.
	function limit.refund(hits)
		changed = true
		if hits == held then
			clear()
			return
		end
		held, total = held - hits, (total - hits) % ROUND
		local number, at, chunk = seek(MAX_COUNT, held)
		newest = from_bytes('<I7', chunk, 14 * at - 6)
		last, tail = number, sub(chunk, 1, 14 * at) .. to_bytes('<I7', total)
	end

	function limit.falls_to(most)
		if most == held - 1 then
			return oldest + window
		end
		local _, at, chunk = seek(MAX_COUNT, held - most)
		return from_bytes('<I7', chunk, 14 * at - 6) + window
	end

	-- sweep removes some of the garbage chunks.
	local function sweep()
		for _ = 1, SWEEP do
			if low < first then
				put(name_of(low), false)
				low = low + 1
			elseif high > last then
				high = high - 1
				put(name_of(high), false)
			end
		end
	end

	function limit.count(now, hits)
		hits = min(hits, MAX_COUNT - held)
		if hits > 0 then
			add(now, hits)
		end
		if not changed then
			return held
		end
		if low < first or high > last then
			sweep()
		end
		if held == 0 and low == first and high == last then
			return 0, ERASED
		end
		return held, to_bytes('<I7I7I7I7I7I7', base, oldest, first, last, low, high) .. tail, old_expiry
	end
end
