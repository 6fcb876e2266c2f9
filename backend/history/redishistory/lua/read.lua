-- Reads hashes at one moment.
--
-- KEYS: format, and the hashes. ARGV: format, time. Reply: read, the time in seconds, and for each hash the number of
-- its fields and values, and these, separated by spaces; '' if there is no hash; a list with the error for a key of
-- another type.

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
