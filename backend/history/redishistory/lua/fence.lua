-- For scripts that write: a partition that is being copied may only be read, as long as its mover has the lock of this node,
-- which ends after the mover has died. Only a ring has fences, so the lock need not be a key of the script. The first writer
-- at the node that a partition has moved to ends the move.
if state == 'moving' then
	if string.match(call('GET', 'weir:h:mover') or '', '^%S+') == mover then
		return {state, mover, detail}
	end
	call('DEL', KEYS[1]) -- which lets SET through on a full server
end
if state then
	call('SET', KEYS[1], known)
	heldFormat = known
end
