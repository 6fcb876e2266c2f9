-- The decision of all limits of a check, as package window makes it in Go.

local function longer(wait, than)
	return than ~= NEVER and (wait == NEVER or wait > than)
end

-- resets returns how long after an allowed check a limit has more left.
local function resets(l, granted, now)
	if l.held > 0 then
		return l.hold(l.held + granted - 1) - now
	end
	return l.aligned and l.hold() - now or 0
end

-- allow answers by the limit with the least left; if several have nothing left, by the one that resets last. If the check's hits
-- filled a limit, a longer reply also has the moment when all limits have room for as many again. A refund that leases
-- prevented in part uses that reply for the hits that still count. Hits granted by a lease do not count here, as they are
-- the caller's.
local function allow(limits, count, asked, granted, now)
	local more = asked.more
	local strictest = 1
	local l = limits[1]
	local remaining = l.requests - l.held
	for i = 2, count do
		local other = limits[i]
		local left = other.requests - other.held
		if left < remaining and remaining > 0 then
			strictest, l, remaining = i, other, left
		end
	end
	local reset = resets(l, granted, now)
	for i = strictest + 1, remaining > 0 and 0 or count do
		local other = limits[i]
		local later = other.requests <= other.held and resets(other, granted, now) or 0
		if later > reset then
			strictest, l, reset = i, other, later
		end
	end
	local held = l.held
	local full = 0
	for i = 1, more > 0 and remaining < more and count or 0 do
		local other = limits[i]
		if other.held > other.requests - more then
			full = max(full, other.hold(other.requests + granted - more) - now)
		end
	end
	if held > max(0, l.before - asked.less) and asked.less > 0 then
		full = held
	end
	if full > 0 then
		return to_bytes('<Bdddx', strictest - 1, l.before, reset, full)
	end
	return to_bytes('<Bdd', strictest - 1, l.before, reset)
end

-- deny answers by the limit that denies for the longest. A limit that admitted the check also makes the caller wait, if it
-- charged the check and is full now. If the check would fit without the leased hits, it waits at most until the last lease
-- is settled. size is the hits of the check, nil for a look.
local function deny(limits, size, now)
	local strictest, denial, longest, reset = nil, 0, 0, 0
	local fits, settled = true, 0
	for i, l in ipairs(limits) do
		local keep, retry = l.requests - (size or l.look), NEVER
		local leased = l.leased and l.leased() or 0
		fits = fits and keep >= 0 and l.held - leased <= keep
		if leased > 0 then
			settled = max(settled, min(l.width, LEASE_TIME) + SETTLE_TIME)
		end
		local leaves = l.held > max(0, keep) and l.hold(max(0, keep)) - now or 0
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
	local identity = fits and call('HGET', key, IDENTITY)
	settled = identity and from_bytes('<I7', identity, 8) + settled - now or 0
	if settled > 0 then
		longest, reset = min(longest, settled), min(reset, settled)
	end
	return to_bytes('<Bddd', strictest - 1, limits[strictest].before, reset, longest)
end

-- prolong makes the key last for the hits that count in it.
local function prolong(limits, now)
	local ended, needed = 0, 0
	for i = 1, #limits do
		local l = limits[i]
		local lasts = l.lasts()
		needed, ended = max(needed, lasts), max(ended, l.lasted or lasts)
	end
	if needed > ended then
		ended = keep(needed, now)
		if ended then
			pcall(trim, limits, ended, needed, now) -- the check is counted, so an error in trim must not fail it
		end
	end
end

-- settle ends a lease of loaded limits. It returns how many hits it removed from each count at least, and the state's identity.
-- It removes none if the lease belongs to another state, or if the clock has stepped back, as then its bucket is another.
local function settle(limits, lease)
	local identity = not stepped and call('HGET', key, IDENTITY)
	identity = identity and sub(identity, 1, 7)
	if identity ~= lease.state then
		return 0, identity
	end
	local returned = lease.unused
	for _, l in ipairs(limits) do
		local back = l.settle(lease)
		l.before, l.held, returned = l.before - back, l.held - back, min(returned, back)
	end
	return returned, identity
end

-- identify returns the identity of the key's state at a lease. A state without one gets the identity that the question brings.
local function identify(lease, now)
	local identity = not stepped and call('HGET', key, IDENTITY)
	identity, stepped = identity and sub(identity, 1, 7) or lease.state, false
	write(IDENTITY, identity .. to_bytes('<I7', now))
	return identity
end

-- decide decides a check of a key.
local function decide(name, asked, now)
	if chunks then
		clear_key()
	end
	key, stepped = name, false
	local limits, size, less, admitted = asked.limits, asked.size, asked.less, true
	local last, lease, granted, returned, identity = #limits, asked.lease, 0, 0, nil
	if lease and lease.want then
		granted = lease.want
	end
	for i = 1, last do
		local l = limits[i]
		local held = l.load(now)
		if granted > 0 then
			granted = min(granted, floor((l.requests - held - asked.more) / lease.share) - lease.abandoned)
		end
		l.before, l.held = held, held
		if (size or l.look) > l.requests - held then
			admitted = asked.op == REFUND
		end
	end
	if lease and lease.granted then
		returned, identity = settle(limits, lease)
	end
	if not admitted or granted < MIN_LEASE_HITS or granted < lease.want / 4 then
		granted = 0
	end
	if granted > 0 then
		identity = identify(lease, now)
	elseif stepped then
		erase(IDENTITY)
	end
	local grown = false
	for i = 1, last do
		local l = limits[i]
		if less > 0 and l.held > 0 then
			l.refund(min(less, l.held))
		end
		local held, field, lasted = l.count(now, (admitted or l.always) and asked.more + granted or 0, granted)
		l.held, l.lasted = held - granted, lasted
		if lasted then
			grown = true
		end
		if field == ERASED then
			erase(l.name)
		elseif field then
			write(l.name, field)
		end
	end
	if writes == 2 and erasures == 0 and not chunks then -- nearly always
		call('HSET', name, written[1], written[2])
		writes = 0
	elseif writes > 0 or erasures > 0 then
		save()
	end
	if grown then
		prolong(limits, now)
	end
	local answer = admitted and allow(limits, last, asked, granted, now) or deny(limits, size, now)
	if lease then
		return answer .. to_bytes('<ddd', lease.want and granted or returned, identity and from_bytes('<I7', identity) or 0, now)
	end
	return answer
end
