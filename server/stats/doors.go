package stats

import "github.com/weirproxy/weir/server/door"

// Doors shows how many connections each port has, and how many it closed.
func (p Process) Doors(all []*door.Door) {
	for _, d := range all {
		p.Gauge("weir_connections", "Connections of each port.", map[string]string{"port": d.Port},
			func() float64 { return float64(d.Open()) })
		for _, r := range []door.Reason{door.Full, door.Memory, door.Unfinished, door.Reset} {
			p.Counter("weir_connections_closed_total", "Connections that weir closed for what they did, by port and reason.",
				map[string]string{"port": d.Port, "reason": string(r)}, func() float64 { return float64(d.Closed(r)) })
		}
	}
}
