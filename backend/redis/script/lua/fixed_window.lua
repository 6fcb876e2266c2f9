-- fixed_window: one epoch-aligned window. Its field has the window's number, its hits, and the number of leased hits,
-- if any.

algorithms[2] = function(limit) -- descriptors.FixedWindow
	local name, width = limit.name, limit.width
	local live, held, leased, changed
	limit.look_hits, limit.aligned = 0, true

	function limit.load(now)
		local value = call('HGET', key, name)
		live, held, leased, changed = (now - now % width) / width, 0, 0, false
		if value then
			local bucket, hits = from_bytes('<I7I7', value)
			held = bucket >= live and hits or 0 -- the clock stepped back: hits of a later window move into the present one
			changed = bucket ~= live and hits > 0
			if bucket >= live and #value > 14 then
				leased = from_bytes('<I7', value, 15)
				stepped = stepped or bucket > live and leased > 0
			end
		end
		return held
	end

	function limit.refund(hits)
		held, changed = held - min(hits, held - leased), true
	end

	function limit.settle(lease)
		local back = 0
		if (lease.moment - lease.moment % width) / width == live then
			back = min(lease.unused, leased)
			held, leased, changed = held - back, max(0, leased - lease.granted), true
		end
		return back
	end

	function limit.leased()
		return leased
	end

	function limit.falls_to()
		return (live + 1) * width
	end

	function limit.expiry()
		return held > 0 and (live + 1) * width or 0
	end

	function limit.count(_, hits, granted)
		local old_expiry = held == 0 and hits > 0 and 0
		held = held + hits
		if held > MAX_COUNT then
			held = MAX_COUNT
		end
		leased = leased + granted
		if leased > 0 and (changed or hits > 0) then
			return held, to_bytes('<I7I7I7', live, held, leased), old_expiry
		end
		return held, (changed or hits > 0) and to_bytes('<I7I7', live, held), old_expiry
	end
end
