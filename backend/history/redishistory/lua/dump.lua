-- Dumps keys, for put.lua. KEYS: those. Reply: for each its dump, '' if there is no such key.

local dumps = {}
for i, key in ipairs(KEYS) do
	dumps[i] = redis.call('DUMP', key) or ''
end
return dumps
