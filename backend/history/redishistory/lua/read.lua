-- Reads hashes at one moment.
--
-- KEYS: format, and the hashes. ARGV: format, time.
-- Reply: read, the second, and for each hash how many fields and values there are, and these, separated by spaces; '' if
-- it is empty. For a key of another type a list with the error.

local reply = {'read', seconds(ARGV[2])}
for i = 2, #KEYS do
	local fields = pcall('HGETALL', KEYS[i])
	if not fields.err then
		reply[i + 1] = #fields > 0 and #fields .. ' ' .. table.concat(fields, ' ') or ''
	elseif find(fields.err, 'WRONGTYPE') then
		reply[i + 1] = {fields.err}
	else
		return fields
	end
end
return reply
