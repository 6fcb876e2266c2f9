-- For scripts that write. A partition that is being copied may only be read while its mover has the lock of this node,
-- which expires after the mover has died. Only a ring has fences, so the lock need not be a key of the script. The
-- first writer at the new node of a partition ends the move.
if state == 'moving' then
	if string.match(call('GET', 'weir:h:mover') or '', '^%S+') == mover then
		return {state, mover, detail}
	end
	call('DEL', KEYS[1]) -- so that a full server allows SET
end
if state then
	call('SET', KEYS[1], known)
	heldFormat = known
end
