-- sliding_window: buckets on several levels, and their running sum.
--
-- The buckets of a level are in chunks, one chunk for each bucket of the level above; fifteen buckets of the coarsest
-- level make a chunk. A header holds the hits in the chunks, their oldest and newest finest bucket, the bucket before
-- which old chunks have been removed, and the live bucket. The live bucket moves into the chunks after its end, so most
-- checks read and write only the header.
--
-- Leased hits are charged at the grant, and are used until their bucket ends. While hits are leased, the header also
-- holds how many of them are in the live bucket, and how many in the newest, until they are settled. No refund takes
-- those of the live bucket, as they may still be used.
--
-- A coarse bucket is written once, when the newest bucket leaves it; until then its finer buckets have its hits. It
-- does not change when its first buckets leave the window, since counting from the oldest bucket on begins on the
-- finest level. So coarse buckets that contain the oldest or the newest bucket are not read, and a hit that comes or
-- goes changes one chunk.
--
-- Garbage is never read, so it may be removed later: buckets before the oldest, the chunk of a bucket without hits,
-- chunks of the coarsest level outside oldest to newest. In a chunk everything after the newest bucket is zero. A chunk
-- begins with zeros when the newest bucket enters it.
--
-- This file has the functions that nearly every check needs; slow_path has the others.

local function sliding_window(limit)
	local name, window, width = limit.name, limit.window, limit.width
	local slow = setmetatable({name = name, window = window, width = width, levels = levels_of(name, limit.fans)},
		slow_path)
	local finest = slow.levels[1]
	local fan = finest.fan
	local held, total, oldest, newest, swept, at, live
	local leased, newest_leased -- leased hits in the live bucket, and in the newest
	local now_at, changed

	-- on_slow_path calls a function of slow_path.
	local function on_slow_path(what, ...)
		slow.total, slow.oldest, slow.newest, slow.swept, slow.at, slow.live = total, oldest, newest, swept, at, live
		local found = slow[what](slow, ...)
		total, oldest, newest, swept, at, live = slow.total, slow.oldest, slow.newest, slow.swept, slow.at, slow.live
		return found
	end

	local function leaves(bucket)
		return (bucket + 1) * width + window
	end

	-- drop subtracts the buckets before the finest bucket "from" from the sum.
	local function drop(from)
		local chunk_name, begin = chunk_at(finest, oldest)
		if from < begin + fan then
			local chunk = get(chunk_name) or inconsistent()
			local first = first_nonzero(chunk, fan, from - begin)
			if first then
				total = total - sum(chunk, fan, oldest - begin, from - begin)
				oldest = begin + first
				return
			end
		end
		on_slow_path('drop', from)
	end

	-- advance drops buckets that have left the window. If the clock stepped back, it moves hits of later buckets into
	-- now's.
	local function advance(from)
		changed = true
		stepped = stepped or leased + newest_leased > 0 and (live > 0 and at > now_at or total > 0 and newest > now_at)
		if live > 0 and at < from then
			total, live, leased, newest_leased = 0, 0, 0, 0
		elseif live > 0 and at > now_at then
			at = now_at
		end
		if total > 0 and newest >= now_at then
			on_slow_path('fold', now_at)
			leased, newest_leased = leased + newest_leased, 0
		end
		if total > 0 and newest < from then
			total, newest_leased = 0, 0
		elseif total > 0 and oldest < from then
			drop(from)
		end
	end

	function limit.load(now)
		local header = call('HGET', key, name)
		total, oldest, newest, swept, at, live, leased, newest_leased = 0, 0, 0, 0, 0, 0, 0, 0
		if header then
			total, oldest, newest, swept, at, live = from_bytes('<I7I7I7I7I7I7', header)
			if #header > 42 then
				leased, newest_leased = from_bytes('<I7I7', header, 43)
			end
		end
		local begun = now - window
		local from = (begun - begun % width) / width
		now_at, changed = (now - now % width) / width, false
		if live > 0 and (at < from or at > now_at) or total > 0 and (oldest < from or newest >= now_at) then
			advance(from)
		end
		held = total + live
		return held
	end

	function limit.expiry()
		return held > 0 and round_up_expiry(leaves(live > 0 and at or newest), window) or 0
	end

	-- flush moves the live bucket into the chunks.
	local function flush()
		local chunk_name, begin = chunk_at(finest, at)
		local hits = live
		if total == 0 then
			on_slow_path('restart', at)
		end
		if newest < begin or newest == 0 then
			on_slow_path('enter', at)
		end
		local chunk = get(chunk_name) or string.rep('\0', fan)
		if total > 0 then
			hits = hits + cell(chunk, fan, at - begin)
		end
		put(chunk_name, set_cell(chunk, fan, at - begin, hits))
		total, newest, live = total + live, at, 0
		newest_leased, leased = leased, 0
	end

	function limit.refund(hits)
		local recent = min(hits, at == now_at and live - leased or live)
		local older = min(hits - recent, total)
		live, held, changed = live - recent, held - recent - older, true
		leased = min(leased, live)
		if older > 0 then
			newest_leased = 0
			on_slow_path('remove_from_chunks', older)
		end
	end

	function limit.leased()
		return leased + newest_leased
	end

	function limit.settle(lease)
		local bucket, back = (lease.moment - lease.moment % width) / width, 0
		if bucket == at then
			back = min(lease.unused, leased)
			live, leased, changed = live - back, max(0, leased - lease.granted), true
		elseif bucket == newest and total > 0 and (live == 0 or at == now_at) then
			back = min(lease.unused, newest_leased)
			newest_leased, changed = max(0, newest_leased - lease.granted), true
			if back > 0 then
				on_slow_path('remove_from_chunks', back)
			end
		end
		held = held - back
		return back
	end

	function limit.falls_to(most)
		if most < live then
			return leaves(at)
		elseif most == held - 1 then
			return leaves(total > 0 and oldest or at)
		end
		return leaves((on_slow_path('skip_newest', most - live)))
	end

	function limit.count(_, hits, granted)
		local old_expiry = false
		if hits > MAX_COUNT - held then
			hits = MAX_COUNT - held
		end
		if hits > 0 then
			if live == 0 or at ~= now_at then
				local was = limit.expiry()
				if live > 0 then
					flush()
				end
				at = now_at
				old_expiry = was ~= round_up_expiry(leaves(at), window) and was
			end
			held, live, leased = held + hits, live + hits, leased + granted
		elseif not changed then
			return held
		end
		if total > 0 and swept + fan <= oldest then
			on_slow_path('sweep')
		end
		if leased + newest_leased > 0 then
			return held, to_bytes('<I7I7I7I7I7I7I7I7', total, oldest, newest, swept, at, live, leased, newest_leased), old_expiry
		end
		return held, to_bytes('<I7I7I7I7I7I7', total, oldest, newest, swept, at, live), old_expiry
	end
end
