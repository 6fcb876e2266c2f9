-- A call of the script. keys are the keys of checks. argv has the time in microseconds, empty for the server's clock; a
-- string with a byte for each check, the index of its spec; and the specs. The reply has a string for each check: its
-- decision, or '!' and the error.

local function run(keys, argv)
	local now = tonumber(argv[1])
	if not now then
		local time = call('TIME')
		now = time[1] * 1000000 + time[2]
	end
	local specs, indexes, reply, i = {}, {byte(argv[2], 1, -1)}, {}, 1
	for arg = 3, #argv do
		specs[arg - 2] = parse_spec(argv[arg])
	end
	local function decide_rest()
		for at = i, #keys do
			i = at
			reply[at] = decide(keys[at], specs[indexes[at]], now)
		end
		i = #keys + 1
	end
	while i <= #keys do
		local ok, failure = pcall(decide_rest)
		if not ok then
			clear_key()
			reply[i] = '!' .. tostring(type(failure) == 'table' and failure.err or failure)
			i = i + 1
		end
	end
	return reply
end
