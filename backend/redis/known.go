package redis

import (
	"cmp"
	"context"
)

// State is what is known of a server that counts.
type State uint8

const (
	// Away means that the server does not answer, or too late for its callers, or has not answered yet.
	Away State = iota
	// Up means that it can count.
	Up
	// Failing means that it answers, and cannot count: it takes no writes, or denies a right.
	Failing
	// States is how many there are.
	States = int(Failing) + 1
)

// String returns the state's name in metrics.
func (s State) String() string { return [States]string{"away", "up", "failing"}[s] }

// Known returns the state of each server by its name, those included that were never asked to count: of a ring its nodes
// as they are configured now, of a cluster the primaries that it named last, or, before it has named any, one that is
// away. It asks no server, and does not wait. What nobody asks may have gone unnoticed for ten minutes, but for a node of
// a ring.
func (h *Health) Known() map[string]State {
	known := make(map[string]State)
	if h == nil {
		return known
	}
	found := *h.found.Load()
	if h.servers.redirects != nil {
		for name, trouble := range found {
			if name != list {
				known[name] = stateOf(cmp.Or(found[list], trouble))
			}
		}
		if len(known) == 0 {
			known["the cluster"] = Away
		}
		return known
	}
	all, err := h.servers.topology.Servers(context.Background()) // only a cluster is asked for them
	if err != nil {
		return known
	}
	for _, one := range all {
		state := Away
		if trouble, probed := found[one.Name]; probed {
			state = stateOf(trouble)
		}
		if h.servers.ring != nil && h.servers.ring.lost(one.Name) {
			state = Away
		}
		known[one.Name] = state
	}
	return known
}

// stateOf returns the state of a server that had this trouble at its last probe.
func stateOf(trouble string) State {
	switch trouble {
	case "":
		return Up
	case away, slow:
		return Away
	}
	return Failing
}
