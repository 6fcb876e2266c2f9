-- token_bucket: a count that leaks evenly, rate hits in a window. Its field has the rate; the time of the last change;
-- how long hits had been leaking by then; and the hits counted since that leaking began. window.Tokens in Go does the
-- same arithmetic, with the same doubles.

algorithms[4] = function(limit) -- descriptors.TokenBucket
	local name, rate, window = limit.name, limit.rate, limit.window
	-- held is the hits that count; counted the hits since start, leaked ones included; loaded_expiry the expiry that the
	-- loaded hits needed.
	local held, counted, start, loaded_expiry
	local changed, old_expiry

	-- leaked returns how many hits leak by a rate within an age below a window.
	local function leaked(age, by)
		local hits = age * by / window
		hits = hits - hits % 1
		return hits < by and hits or by
	end

	-- leak_age returns the first age at which so many hits have leaked. hits is at least 1 and at most the rate.
	local function leak_age(hits, by)
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

	-- convert_age converts an age from an old rate, was, to the present one, so that the same share of the next hit has
	-- leaked.
	local function convert_age(age, was)
		local hits = leaked(age, was)
		if hits > 0 then
			age = max(0, age - leak_age(hits, was))
		end
		return min(floor(age * was / rate), leak_age(1, rate) - 1)
	end

	-- drain_end returns the expiry of a key whose hits leak at a rate. Two microseconds make up for rounding.
	local function drain_end(from, hits, by)
		local moment = from + hits * window / by + 2
		return round_up_expiry(moment < MAX_COUNT and moment or MAX_COUNT, window)
	end

	-- If the clock stepped back, the whole state moves back. If the rate has changed, hits leak at the new one from now
	-- on.
	function limit.load(now)
		local value = call('HGET', key, name)
		held, counted, start, loaded_expiry, changed, old_expiry = 0, 0, now, 0, false, false
		if not value then
			return 0
		end
		local was, last, age, hits = from_bytes('<I7I7I7I7', value)
		loaded_expiry = drain_end(last - age, hits, was)
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
			hits, age, changed, old_expiry = held, convert_age(age, was), true, loaded_expiry
		end
		counted, start = hits, now - age
		return held
	end

	function limit.expiry()
		return held > 0 and drain_end(start, counted, rate) or 0
	end

	function limit.refund(hits)
		held, counted, changed = held - hits, counted - hits, true
	end

	-- falls_to returns at most the last moment that a reply can hold.
	function limit.falls_to(most)
		local hits, moment = counted - most, start
		if hits > rate then
			local whole = floor((hits - 1) / rate)
			if whole * window > MAX_COUNT then
				return MAX_COUNT
			end
			moment, hits = moment + whole * window, hits - whole * rate
		end
		moment = moment + leak_age(hits, rate)
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
			old_expiry = limit.expiry() ~= loaded_expiry and loaded_expiry
		end
		if held == 0 then
			return 0, changed and ERASED
		end
		return held, changed and to_bytes('<I7I7I7I7', rate, now, now - start, counted), old_expiry
	end
end
