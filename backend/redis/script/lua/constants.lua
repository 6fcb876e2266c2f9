-- The constants and library functions that all parts of this script use. All times are in microseconds.

local call, to_bytes, from_bytes = redis.call, struct.pack, struct.unpack
local ceil, floor, max, min = math.ceil, math.floor, math.max, math.min
local byte, find, sub = string.byte, string.find, string.sub

local COUNT, LOOK, REFUND, LEASE = 0, 1, 2, 4 -- LEASE is added to one of the others
local NEVER = -1
local MIN_LEASE_HITS = 8
local LEASE_TIME, SETTLE_TIME = 1000000, 100000 -- the longest time of a lease; the time to settle it after its end
local IDENTITY = 'i' -- the field with the identity of a key's state, made at its first lease, and the time of its last lease
local MAX_COUNT = 9007199254740991
local MAX_BURST = 4503599627370496
