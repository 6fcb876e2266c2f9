-- Runs each command of the other scripts on a separate key, so that a missing right is found before a script fails
-- halfway.
--
-- KEYS: format, the separate key. ARGV: format, time.
-- Reply: fine.

local key = KEYS[2]
seconds('')
call('DEL', key)
call('SET', key, '1')
call('DEL', key)
call('HSET', key, 'a', '1')
call('HINCRBY', key, 'a', '1')
call('HGET', key, 'a')
call('HMGET', key, 'a', 'b')
call('HGETALL', key)
call('HLEN', key)
call('HDEL', key, 'a')
call('ZADD', key, '1', 'a')
call('ZCARD', key)
call('ZREM', key, 'b')
call('ZRANGEBYSCORE', key, '-inf', '0', 'LIMIT', '0', '1')
call('DEL', key)
return {'fine'}
