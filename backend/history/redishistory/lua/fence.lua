-- For scripts that write: a partition that is being copied may only be read, until its fence ends by the server's clock,
-- as its mover has died then. The first writer at the node that a partition has moved to ends the move.
if state == 'moving' then
	if tonumber(call('TIME')[1]) < tonumber(detail) then
		return {state, mover, detail}
	end
	call('DEL', KEYS[1]) -- which lets SET through on a full server
end
if state then
	call('SET', KEYS[1], known)
	heldFormat = known
end
