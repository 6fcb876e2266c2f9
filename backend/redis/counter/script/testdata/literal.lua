-- A key a bucket, for the benchmark alone: a check reads the buckets that cover its window, each on the coarsest level
-- that fits, and counts on the newest of every level. ARGV: now, hits, requests, window, the levels' widths.

local now, hits, requests, window = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local widths = {}
for i = 5, #ARGV do
	widths[#widths + 1] = tonumber(ARGV[i])
end

local function name(key, level, finest)
	return key .. ':' .. level .. ':' .. string.format('%d', math.floor(finest * widths[1] / widths[level]))
end

local function sum(key, from, to)
	local names = {}
	while from <= to do
		local level = #widths
		while from * widths[1] % widths[level] ~= 0 do
			level = level - 1
		end
		names[#names + 1] = name(key, level, from)
		from = from + widths[level] / widths[1]
	end
	local total = 0
	for _, held in ipairs(redis.call('MGET', unpack(names))) do
		total = total + (tonumber(held) or 0)
	end
	return total
end

local at, reply = math.floor(now / widths[1]), {}
for i, key in ipairs(KEYS) do
	reply[i] = 0
	if sum(key, math.floor((now - window) / widths[1]), at) + hits <= requests then
		reply[i] = 1
		for level, width in ipairs(widths) do
			local bucket = name(key, level, at)
			if redis.call('INCRBY', bucket, hits) == hits then
				redis.call('PEXPIRE', bucket, math.ceil((window + 2 * width) / 1000))
			end
		end
	end
end
return reply
