-- What all limits of a check decide together; package window says the same in Go.

local function longer(wait, than)
	return than ~= NEVER and (wait == NEVER or wait > than)
end

local function answer(allowed, strictest, before, remaining, reset, retry)
	return to_bytes('<BBdddd', allowed, strictest - 1, before, remaining, reset, retry)
end

-- allow answers by the limit with the least left.
local function allow(limits, now)
	local strictest, remaining = 1, limits[1].requests - limits[1].held
	for i = 2, #limits do
		local left = limits[i].requests - limits[i].held
		if left < remaining and remaining > 0 then
			strictest, remaining = i, left
		end
	end
	local l = limits[strictest]
	local reset = l.held > 0 and l:hold(l.held - 1) - now or l.algorithm == FIXED and l:hold() - now or 0
	return answer(1, strictest, l.before, max(0, remaining), reset, 0)
end

-- deny answers by the limit that denies for the longest. One that admitted the check makes the caller wait, too, if it
-- charged the check all the same and is full now.
local function deny(limits, now)
	local strictest, denial, longest, reset = nil, 0, 0, 0
	for i, l in ipairs(limits) do
		local keep, retry = l.requests - l.size, NEVER
		local leaves = l.held > max(0, keep) and l:hold(max(0, keep)) - now or 0
		if keep >= 0 then
			retry = leaves
		elseif leaves == 0 then
			leaves = l.window
		end
		if l.before > keep and (not strictest or longer(retry, denial)) then
			strictest, denial = i, retry
		end
		if longer(retry, longest) then
			longest = retry
		end
		reset = max(reset, leaves)
	end
	return answer(0, strictest, limits[strictest].before, 0, reset, longest)
end

-- load reads what the limits hold, and returns whether all admit a check. size is its hits, nil for a look: over if one hit
-- more would be denied, under a fixed window if too many count.
local function load(limits, size, now)
	local admitted = true
	for i = 1, #limits do
		local l = limits[i]
		l:load(now)
		l.before, l.size = l.held, size or l.algorithm == FIXED and 0 or 1
		if l.size > l.requests - l.held then
			admitted = false
		end
	end
	return admitted
end

-- prolong makes sure that the key lasts for what counts in it, and returns until when it would have lasted, if that is
-- earlier, and until when it must.
local function prolong(limits, now)
	local ended, needed = 0, 0
	for i = 1, #limits do
		local l = limits[i]
		local lasts = l:lasts()
		needed = max(needed, lasts)
		ended = max(ended, l.grown and l.lasted or lasts)
	end
	if needed > ended then
		return keep(needed, now), needed
	end
end

local trim

-- decide decides a check of a key.
local function decide(name, op, hits, limits, now)
	open(name)
	local admitted = load(limits, op == REFUND and 0 or op == COUNT and hits or nil, now)
	for i = 1, op == LOOK and 0 or #limits do
		local l = limits[i]
		if op == REFUND then
			if l.held > 0 and hits > 0 then
				l:take_back(now, min(hits, l.held))
			end
		elseif hits > 0 and (admitted or l.always == 1) then
			l:add(now, min(hits, MAX_COUNT))
		end
	end
	local decision
	if admitted or op == REFUND then
		decision = allow(limits, now)
	else
		decision = deny(limits, now)
	end
	local grown = false
	for i = 1, #limits do
		local l = limits[i]
		if l.changed then
			l:save(now)
			grown = grown or l.grown
		end
	end
	save()
	if grown then
		local ended, needed = prolong(limits, now)
		if ended then
			trim = trim or trimming()
			pcall(trim, limits, ended, needed, now) -- the check is counted, whatever becomes of the rest
		end
	end
	return decision
end
