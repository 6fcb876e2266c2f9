-- token_bucket: a count that leaks evenly, rate hits in a window. One field has the rate; when the bucket was last changed;
-- how long hits had been leaking then; and the hits that were counted since that leaking began. The arithmetic is that of
-- window.Tokens in Go, with the same doubles.

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

local function token_bucket()
	local Bucket = {}

	-- load finds out what counts: of the hits counted since a start those that have not leaked. A clock that stepped back
	-- takes the whole state with it. Where the requests of a window have changed, what counts leaks by the new ones from now
	-- on.
	function Bucket:load(now)
		self.changed, self.grown, self.lasted = false, false, 0
		local value = call('HGET', key, self.name)
		if not value then
			self.held, self.counted, self.start = 0, 0, now
			return
		end
		local rate, last, age, counted = from_bytes('<I7I7I7I7', value)
		local window = self.window
		self.lasted = self:drained(last - age, counted, rate)
		if now < last then
			self.changed = true
		else
			age = age + now - last
		end
		if age >= window then
			local whole = floor(age / window)
			counted, age = counted - whole * rate, age - whole * window
		end
		local held = max(0, counted - leaked(age, rate, window))
		if held == 0 then
			counted, age, self.changed = 0, 0, true
		elseif rate ~= self.rate then
			counted, age, self.changed, self.grown = held, self:carried(age, rate), true, true
		end
		self.held, self.counted, self.start = held, counted, now - age
	end

	-- carried returns for how long the next hit has been leaking by another rate than that by which hits leaked until an
	-- age: the same share of it has leaked.
	function Bucket:carried(age, was)
		local hits = leaked(age, was, self.window)
		if hits > 0 then
			age = max(0, age - leaks(hits, was, self.window))
		end
		return min(floor(age * was / self.rate), leaks(1, self.rate, self.window) - 1)
	end

	-- drained is until when a key is kept for hits that leak by a rate. The two microseconds are more than doubles may be
	-- wrong.
	function Bucket:drained(start, counted, rate)
		return kept(min(MAX_COUNT, start + counted * self.window / rate + 2), self.window)
	end

	function Bucket:add(now, hits)
		hits = min(hits, MAX_BURST - self.held)
		if hits <= 0 then
			return
		elseif self.held == 0 then
			self.counted, self.start = 0, now
		end
		self.held, self.counted, self.changed = self.held + hits, self.counted + hits, true
		self.grown = self.grown or self:lasts() ~= self.lasted
	end

	function Bucket:take_back(_, hits)
		self.held, self.changed = self.held - hits, true
		self.counted = self.held > 0 and self.counted - hits or 0
	end

	function Bucket:hold(keep)
		return when_leaked(self.start, self.counted - keep, self.rate, self.window)
	end

	function Bucket:lasts()
		return self.held > 0 and self:drained(self.start, self.counted, self.rate) or 0
	end

	function Bucket:save(now)
		if self.held == 0 then
			erase(self.name)
		else
			write(self.name, to_bytes('<I7I7I7I7', self.rate, now, now - self.start, self.counted))
		end
	end

	return Bucket
end
