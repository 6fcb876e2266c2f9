-- add returns the exact sum of two counts.
local function add(a, b)
	if #a <= 15 and #b <= 15 then
		return format('%.0f', a + b)
	end
	local low = sub(a, -9) + sub(b, -9)
	local high = (tonumber(sub(a, 1, -10)) or 0) + (tonumber(sub(b, 1, -10)) or 0)
	if low >= 1e9 then
		low, high = low - 1e9, high + 1
	end
	if high == 0 then
		return format('%.0f', low)
	end
	return format('%.0f%09.0f', high, low)
end
