-- A call: KEYS are the keys of checks, ARGV the time in microseconds, or nothing for the server's, and the checks. The
-- reply has a string for each check: its decision, or '!' and what went wrong with it.

local decide, tidy

-- one decides a check. The general way is put together only when it is needed: making its functions costs more than
-- most checks.
local function one(key, packed, now)
	local decision, stale, header = quick(key, packed, now)
	if decision and not stale then
		return decision
	end
	if not decide then
		decide, tidy = general()
	end
	if decision then
		pcall(tidy, key, packed, now) -- the check is counted, whatever becomes of the rest
		return decision
	end
	return decide(key, packed, now, header)
end

local now = tonumber(ARGV[1])
if not now then
	local time = call('TIME')
	now = time[1] * 1000000 + time[2]
end
local reply = {}
for i = 1, #KEYS do
	local ok, decision = pcall(one, KEYS[i], ARGV[i + 1], now)
	if not ok then
		decision = '!' .. tostring(type(decision) == 'table' and decision.err or decision)
	end
	reply[i] = decision
end
return reply
