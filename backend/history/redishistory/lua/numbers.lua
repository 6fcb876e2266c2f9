-- The functions and the format check of all scripts. Counts are decimal strings of at most 18 digits, as numbers of Lua
-- are exact only up to 15.

local call, pcall = redis.call, redis.pcall
local floor, format, find, sub = math.floor, string.format, string.find, string.sub

-- less reports whether a count is less than another one. Counts have no leading zeros.
local function less(a, b)
	if #a ~= #b then
		return #a < #b
	end
	return a < b
end

-- seconds returns the time that a test has given in microseconds, or the server's.
local function seconds(given)
	if given ~= '' then
		return floor(given / 1000000)
	end
	return tonumber(call('TIME')[1])
end

-- The first key has the format of the partition, and its state if it moves between nodes; see FORMAT.md. Scripts do not
-- touch another format. A caller that sends the token of a move has met its tombstone, or is the mover.
local known, token = string.match(ARGV[1], '^(%S+) ?(%S*)$')
local heldFormat = call('GET', KEYS[1])
local state, mover, detail
if heldFormat and heldFormat ~= known then
	state, mover, detail = string.match(heldFormat, '^' .. known .. ' (%a+) (%S+) ?(.*)$')
	if not state or not find(' moving copying moved ', ' ' .. state .. ' ', 1, true) then
		return {'format', heldFormat}
	elseif state ~= 'moving' and mover ~= token then
		return {state, mover, detail}
	end
end
