-- Reads hashes at one moment.
--
-- KEYS: format, and the hashes. ARGV: format, time.
-- Reply: read, the second, and for each hash its fields and values, separated by spaces.

local reply = {'read', seconds(ARGV[2])}
for i = 2, #KEYS do
	local fields = pcall('HGETALL', KEYS[i])
	if fields.err then
		return {'damaged', KEYS[i], fields.err}
	end
	reply[#reply + 1] = table.concat(fields, ' ')
end
return reply
