-- The decision of a check under all its limits, as package window makes it in Go.

local function longer(wait, than)
	return than ~= NEVER and (wait == NEVER or wait > than)
end

-- reset_in returns the time after an allowed check until a limit has room for one more hit.
local function reset_in(l, granted, now)
	if l.held > 0 then
		return l.falls_to(l.held + granted - 1) - now
	end
	return l.aligned and l.falls_to() - now or 0
end

-- allow answers by the limit that has the fewest hits left; if several have none left, by the one that resets last. If
-- the check's hits filled a limit, a longer reply also has the time until all limits have room for as many hits again.
-- If leases kept a refund from removing all its hits, the longer reply has the hits that still count instead. Leased
-- hits do not count here.
local function allow(limits, count, spec, granted, now)
	local charge = spec.charge
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
	local reset = reset_in(l, granted, now)
	for i = strictest + 1, remaining > 0 and 0 or count do
		local other = limits[i]
		local later = other.requests <= other.held and reset_in(other, granted, now) or 0
		if later > reset then
			strictest, l, reset = i, other, later
		end
	end
	local held = l.held
	local full = 0
	for i = 1, charge > 0 and remaining < charge and count or 0 do
		local other = limits[i]
		if other.held > other.requests - charge then
			full = max(full, other.falls_to(other.requests + granted - charge) - now)
		end
	end
	if held > max(0, l.before - spec.refund) and spec.refund > 0 then
		full = held
	end
	if full > 0 then
		return to_bytes('<Bdddx', strictest - 1, l.before, reset, full)
	end
	return to_bytes('<Bdd', strictest - 1, l.before, reset)
end

-- deny answers by the limit that denies for the longest time. A limit that admitted the check also makes the caller
-- wait, if it charged the check and is full now. If the check would fit without the leased hits, the caller waits at
-- most until the last lease is settled. size is the number of hits of the check, nil for a look.
local function deny(limits, size, now)
	local strictest, denial, longest, reset = nil, 0, 0, 0
	local fits, settled = true, 0
	for i, l in ipairs(limits) do
		local most, retry = l.requests - (size or l.look_hits), NEVER
		local leased = l.leased and l.leased() or 0
		fits = fits and most >= 0 and l.held - leased <= most
		if leased > 0 then
			settled = max(settled, min(l.width, LEASE_TIME) + SETTLE_TIME)
		end
		local leaves = l.held > max(0, most) and l.falls_to(max(0, most)) - now or 0
		if most >= 0 then
			retry = leaves
		elseif leaves == 0 then
			leaves = l.window
		end
		if l.before > most and (not strictest or longer(retry, denial)) then
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

-- extend_expiry extends the key's TTL if its hits need it.
local function extend_expiry(limits, now)
	local ended, needed = 0, 0
	for i = 1, #limits do
		local l = limits[i]
		local expiry = l.expiry()
		needed, ended = max(needed, expiry), max(ended, l.old_expiry or expiry)
	end
	if needed > ended then
		ended = extend_ttl(needed, now)
		if ended then
			pcall(trim, limits, ended, needed, now) -- the check is counted, so an error in trim must not fail it
		end
	end
end

-- settle ends a lease of loaded limits. It returns the least number of hits that it removed from a limit, and the
-- state's identity. It removes none if the lease belongs to another state, or if the clock has stepped back, which
-- moves its bucket.
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

-- identify returns the identity of the key's state at the grant of a lease. A state without one gets that of the spec.
local function identify(lease, now)
	local identity = not stepped and call('HGET', key, IDENTITY)
	identity, stepped = identity and sub(identity, 1, 7) or lease.state, false
	write(IDENTITY, identity .. to_bytes('<I7', now))
	return identity
end

-- decide decides a check of a key.
local function decide(name, spec, now)
	if chunks then
		clear_key()
	end
	key, stepped = name, false
	local limits, size, refund, admitted = spec.limits, spec.size, spec.refund, true
	local last, lease, granted, returned, identity = #limits, spec.lease, 0, 0, nil
	if lease and lease.want then
		granted = lease.want
	end
	for i = 1, last do
		local l = limits[i]
		local held = l.load(now)
		if granted > 0 then
			granted = min(granted, floor((l.requests - held - spec.charge) / lease.share) - lease.abandoned)
		end
		l.before, l.held = held, held
		if (size or l.look_hits) > l.requests - held then
			admitted = spec.op == REFUND
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
		if refund > 0 and l.held > 0 then
			l.refund(min(refund, l.held))
		end
		local held, field, old_expiry = l.count(now, (admitted or l.charges_denied) and spec.charge + granted or 0, granted)
		l.held, l.old_expiry = held - granted, old_expiry
		if old_expiry then
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
		extend_expiry(limits, now)
	end
	local answer = admitted and allow(limits, last, spec, granted, now) or deny(limits, size, now)
	if lease then
		return answer .. to_bytes('<ddd', lease.want and granted or returned, identity and from_bytes('<I7', identity) or 0, now)
	end
	return answer
end
