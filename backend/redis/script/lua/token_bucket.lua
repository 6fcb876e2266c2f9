-- token_bucket: a count that leaks evenly, rate hits in a window. One field has the rate; when the bucket was last
-- changed; how long hits had been leaking then; and the hits that were counted since that leaking began. The arithmetic
-- is that of window.Tokens in Go, with the same doubles.

algorithms[4] = function(limit) -- descriptors.TokenBucket
	local name, rate, window = limit.name, limit.rate, limit.window
	-- What counts; the hits that were counted since a start, those included that have leaked; until when the key lasted
	-- for what was loaded.
	local held, counted, start, saved
	local changed, lasted

	-- leaked returns how many hits leak by a rate within an age below a window.
	local function leaked(age, by)
		local hits = age * by / window
		hits = hits - hits % 1
		return hits < by and hits or by
	end

	-- leaks returns the first age at which so many hits have leaked, at least one and at most those of a window.
	local function leaks(hits, by)
		if hits >= by then
			return window
		end
		local age = ceil(hits * window / by)
		while age > 0 and leaked(age - 1, by) >= hits do
			age = age - 1
		end
		while leaked(age, by) < hits do
			age = age + 1
		end
		return age
	end

	-- carried returns for how long the next hit has been leaking by another rate than that by which hits leaked until
	-- an age: the same share of it has leaked.
	local function carried(age, was)
		local hits = leaked(age, was)
		if hits > 0 then
			age = max(0, age - leaks(hits, was))
		end
		return min(floor(age * was / rate), leaks(1, rate) - 1)
	end

	-- drained is until when a key is kept for hits that leak by a rate. The two microseconds are more than doubles may
	-- be wrong.
	local function drained(from, hits, by)
		local moment = from + hits * window / by + 2
		return kept(moment < MAX_COUNT and moment or MAX_COUNT, window)
	end

	-- A clock that stepped back takes the whole state with it. Where the requests of a window have changed, what counts
	-- leaks by the new ones from now on.
	function limit.load(now)
		local value = call('HGET', key, name)
		held, counted, start, saved, changed, lasted = 0, 0, now, 0, false, false
		if not value then
			return 0
		end
		local was, last, age, hits = from_bytes('<I7I7I7I7', value)
		saved = drained(last - age, hits, was)
		if now < last then
			changed = true
		else
			age = age + now - last
		end
		if age >= window then
			local whole = floor(age / window)
			hits, age = hits - whole * was, age - whole * window
		end
		held = hits - leaked(age, was)
		if held <= 0 then
			held, changed = 0, true
			return 0
		elseif was ~= rate then
			hits, age, changed, lasted = held, carried(age, was), true, saved
		end
		counted, start = hits, now - age
		return held
	end

	function limit.lasts()
		return held > 0 and drained(start, counted, rate) or 0
	end

	function limit.refund(hits)
		held, counted, changed = held - hits, counted - hits, true
	end

	-- A moment that is later than the last one that is told is told as that.
	function limit.hold(keep)
		local hits, moment = counted - keep, start
		if hits > rate then
			local whole = floor((hits - 1) / rate)
			if whole * window > MAX_COUNT then
				return MAX_COUNT
			end
			moment, hits = moment + whole * window, hits - whole * rate
		end
		moment = moment + leaks(hits, rate)
		return moment < MAX_COUNT and moment or MAX_COUNT
	end

	function limit.count(now, hits)
		if hits > MAX_BURST - held then
			hits = max(0, MAX_BURST - held)
		end
		if hits > 0 then
			if held == 0 then
				counted, start = 0, now
			end
			held, counted, changed = held + hits, counted + hits, true
			lasted = limit.lasts() ~= saved and saved
		end
		if held == 0 then
			return 0, changed and ERASED
		end
		return held, changed and to_bytes('<I7I7I7I7', rate, now, now - start, counted), lasted
	end
end
