-- A call: KEYS are the keys of checks. ARGV are the time in microseconds, or nothing for the server's; a byte for each
-- check, the place of its question among those that follow; and the questions. The reply has a string for each check: its
-- decision, or '!' and what went wrong with it.

local function run(keys, argv)
	local now = tonumber(argv[1])
	if not now then
		local time = call('TIME')
		now = time[1] * 1000000 + time[2]
	end
	local ops, hits, limits, asked, reply = {}, {}, {}, argv[2], {}
	for i = 3, #argv do
		ops[i - 2], hits[i - 2], limits[i - 2] = question(argv[i])
	end
	for i = 1, #keys do
		local at = byte(asked, i)
		local ok, decision = pcall(decide, keys[i], ops[at], hits[at], limits[at], now)
		if not ok then
			decision = '!' .. tostring(type(decision) == 'table' and decision.err or decision)
		end
		reply[i] = decision
	end
	return reply
end
