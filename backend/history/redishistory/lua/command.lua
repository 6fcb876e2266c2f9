-- Runs a command on the node of the partition.
--
-- KEYS: format, the command's key. ARGV: format, time, the command, its other arguments. Reply: done, and the answer.

return {'done', call(ARGV[3], KEYS[2], unpack(ARGV, 4))}
