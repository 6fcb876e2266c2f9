-- token_bucket, as far as both ways through a check need it. Hits leak evenly, rate of them in a window. The arithmetic is
-- that of window.Tokens in Go, with the same doubles.

-- leaked returns how many hits leak within an age below a window.
local function leaked(age, rate, window)
	return min(rate, floor(age * rate / window))
end

-- level_at returns how many of the hits held count at an age, and the hits and the age without the windows that are over.
local function level_at(held, age, rate, window)
	local whole = floor(age / window)
	held, age = held - whole * rate, age - whole * window
	return max(0, held - leaked(age, rate, window)), held, age
end

-- leaks returns the first age at which so many hits have leaked, at least one and at most those of a window.
local function leaks(hits, rate, window)
	if hits >= rate then
		return window
	end
	local age = math.ceil(hits * window / rate)
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
	local whole = floor((hits - 1) / rate)
	if whole * window > MAX_COUNT then
		return MAX_COUNT
	end
	return min(MAX_COUNT, start + whole * window + leaks(hits - whole * rate, rate, window))
end
