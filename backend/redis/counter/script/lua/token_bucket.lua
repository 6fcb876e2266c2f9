-- token_bucket: a count that leaks evenly, rate hits in a window. One field has the rate; when the bucket was last
-- changed; how long hits had been leaking then; and the hits that were counted since that leaking began. The arithmetic
-- is that of window.Tokens in Go, with the same doubles.

local function token_bucket(limit)
	local name, rate, window = limit.name, limit.rate, limit.window
	-- What counts; the hits that were counted since a start, those included that have leaked; until when the key lasted
	-- for what was loaded.
	local held, counted, start, saved
	local changed, lasted

	-- leaked returns how many hits leak within an age below a window.
	local function leaked(age, rate, window)
		local hits = age * rate / window
		hits = hits - hits % 1
		return hits < rate and hits or rate
	end

	-- leaks returns the first age at which so many hits have leaked, at least one and at most those of a window.
	local function leaks(hits, rate, window)
		if hits >= rate then
			return window
		end
		local age = ceil(hits * window / rate)
		while age > 0 and leaked(age - 1, rate, window) >= hits do
			age = age - 1
		end
		while leaked(age, rate, window) < hits do
			age = age + 1
		end
		return age
	end

	-- when_leaked returns when so many hits have leaked since a moment; the last one that is told if it is later.
	local function when_leaked(start, hits, rate, window)
		if hits > rate then
			local whole = floor((hits - 1) / rate)
			if whole * window > MAX_COUNT then
				return MAX_COUNT
			end
			start, hits = start + whole * window, hits - whole * rate
		end
		local moment = start + leaks(hits, rate, window)
		return moment < MAX_COUNT and moment or MAX_COUNT
	end

	-- carried returns for how long the next hit has been leaking by another rate than that by which hits leaked until
	-- an age: the same share of it has leaked.
	local function carried(age, was)
		local hits = leaked(age, was, window)
		if hits > 0 then
			age = max(0, age - leaks(hits, was, window))
		end
		return min(floor(age * was / rate), leaks(1, rate, window) - 1)
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
		held = hits - leaked(age, was, window)
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

	function limit.take_back(_, hits)
		held, counted, changed = held - hits, counted - hits, true
		return held
	end

	function limit.hold(keep)
		return when_leaked(start, counted - keep, rate, window)
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
