-- What scripts share. Counts are decimal strings of at most 18 digits: a number of Lua's is exact only up to 15.

local call, pcall = redis.call, redis.pcall
local floor, format, find, sub = math.floor, string.format, string.find, string.sub

-- less compares two counts. They have no zeros before them.
local function less(a, b)
	if #a ~= #b then
		return #a < #b
	end
	return a < b
end

-- seconds is the time that a test gives, in microseconds, or the server's.
local function seconds(given)
	if given ~= '' then
		return floor(given / 1000000)
	end
	return tonumber(call('TIME')[1])
end

-- The first key is the format of what the partition holds. Another one is left alone.
local heldFormat = call('GET', KEYS[1])
if heldFormat and heldFormat ~= ARGV[1] then
	return {'format', heldFormat}
end
