-- What all limits of a check decide together; package window says the same in Go.

local function fits(before, size, requests)
	return before <= requests and size <= requests - before
end

local function longer(wait, than)
	return than ~= NEVER and (wait == NEVER or wait > than)
end

-- weigh_denial weighs a limit of a denied check. One that admitted it makes the caller wait, too, if it charged the
-- check all the same and is full now. denial is the wait of the strictest limit alone.
local function weigh_denial(v, i, state, l, before, size, now)
	local retry, reset = NEVER, 0
	if size <= l.requests then
		retry = state:hold(now, l.requests - size) - now
		reset = retry
	else
		reset = state:hold(now, 0) - now
		if reset == 0 then
			reset = l.window
		end
	end
	if not fits(before, size, l.requests) and (not v.strictest or longer(retry, v.denial)) then
		v.strictest, v.before, v.denial = i, before, retry
	end
	if longer(retry, v.retry) then
		v.retry = retry
	end
	v.reset = max(v.reset, reset)
end

-- weigh takes limit i into the verdict. before is its count when the check came, size the hits of the check.
local function weigh(v, i, state, l, before, size, now)
	if not v.allowed then
		return weigh_denial(v, i, state, l, before, size, now)
	end
	local after = state:sum(now)
	local remaining = max(0, l.requests - after)
	if not v.strictest or remaining < v.remaining then
		v.strictest, v.before, v.remaining = i, before, remaining
		v.reset = after > 0 and state:hold(now, after - 1) - now or l.algorithm == FIXED and state:expires() - now or 0
	end
end

local function verdict(allowed)
	return {allowed = allowed, before = 0, remaining = 0, reset = 0, retry = 0}
end

local function charge(limits, states, hits, now)
	local admitted = true
	for i, l in ipairs(limits) do
		admitted = admitted and fits(states[i]:sum(now), hits, l.requests)
	end
	local v = verdict(admitted)
	for i, l in ipairs(limits) do
		local before = states[i]:sum(now)
		if admitted or l.always == 1 then
			states[i]:add(now, min(hits, MAX_COUNT))
		end
		weigh(v, i, states[i], l, before, hits, now)
	end
	return v
end

local function look(limits, states, now)
	local v = verdict(true)
	for i, l in ipairs(limits) do
		l.size = l.algorithm == FIXED and 0 or 1
		v.allowed = v.allowed and fits(states[i]:sum(now), l.size, l.requests)
	end
	for i, l in ipairs(limits) do
		weigh(v, i, states[i], l, states[i]:sum(now), l.size, now)
	end
	return v
end

local function refund(limits, states, hits, now)
	local v = verdict(true)
	for i, l in ipairs(limits) do
		local before = states[i]:sum(now)
		states[i]:add(now, -min(hits, MAX_COUNT))
		weigh(v, i, states[i], l, before, 0, now)
	end
	return v
end

-- decide is the general way through a check. header is that of its only limit, if the quick way has read it.
local function decide(key, packed, now, header)
	local op, hits, limits = arguments(packed)
	local fields, states = open(key, limits, header), {}
	for i, l in ipairs(limits) do
		states[i] = l.algorithm == SLIDING and sliding_window(fields, l)
			or l.algorithm == FIXED and fixed_window(fields, l) or l.algorithm == BUCKET and token_bucket(fields, l)
			or sliding_log(fields, l)
	end
	local v
	if op == LOOK then
		v = look(limits, states, now)
	elseif op == REFUND then
		v = refund(limits, states, hits, now)
	else
		v = charge(limits, states, hits, now)
	end
	local needed
	for _, s in ipairs(states) do
		if s.changed then
			s:save()
		end
		if s.grown then
			needed = max(needed or 0, s:expires())
		end
	end
	local ended = fields:save(needed, now)
	if ended then
		pcall(trim, key, limits, ended, needed, now) -- the check is counted, whatever becomes of the rest
	end
	return to_bytes('<BBdddd', v.allowed and 1 or 0, v.strictest - 1, v.before, v.remaining, v.reset, v.retry)
end
