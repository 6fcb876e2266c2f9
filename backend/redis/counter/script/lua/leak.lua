-- token_bucket, as far as both ways through a check need it. Hits leak evenly, rate of them in a window. The arithmetic is
-- that of window.Tokens in Go, with the same doubles.

-- leaked returns how many hits leak within an age below a window.
local function leaked(age, rate, window)
	local hits = age * rate / window
	hits = hits - hits % 1
	return hits < rate and hits or rate
end

-- level_at returns how many of the hits held count at an age, and the hits and the age without the windows that are over.
local function level_at(held, age, rate, window)
	if age >= window then
		local whole = floor(age / window)
		held, age = held - whole * rate, age - whole * window
	end
	local counts = held - leaked(age, rate, window)
	return counts > 0 and counts or 0, held, age
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
