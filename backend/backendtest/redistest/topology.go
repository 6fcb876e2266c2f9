package redistest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// slots is how many a cluster has.
const slots = 16384

// topology is a cluster as one of its nodes sees it, by node id.
type topology map[string]member

type member struct {
	addr    string // as clients are told
	flags   string
	primary string // its id; empty for a primary
	slots   []slotRange
}

type slotRange struct{ first, last int }

func (m member) owns(slot int) bool {
	return slices.ContainsFunc(m.slots, func(r slotRange) bool { return r.first <= slot && slot <= r.last })
}

// read asks a node for its view.
func (c *ClusterSet) read(ctx context.Context, node *Server) (topology, error) {
	text, err := node.client.ClusterNodes(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("asking %s for its cluster: %w", node.name, err)
	}
	m := make(topology)
	for line := range strings.Lines(text) {
		if err := m.add(strings.Fields(line)); err != nil {
			return nil, fmt.Errorf("%s describes a node as %q: %w", node.name, line, err)
		}
	}
	return m, nil
}

// add takes a line of CLUSTER NODES: id, address@bus, flags, primary, ping, pong, epoch, link and slots.
func (m topology) add(fields []string) error {
	if len(fields) < 8 {
		return errors.New("want 8 fields or more")
	}
	addr, _, _ := strings.Cut(fields[1], "@")
	is := member{addr: addr, flags: fields[2], primary: strings.Trim(fields[3], "-")}
	for _, field := range fields[8:] {
		if strings.HasPrefix(field, "[") {
			continue // a slot that comes or goes
		}
		first, last, isRange := strings.Cut(field, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		if err != nil {
			return err
		}
		to, err := strconv.Atoi(last)
		if err != nil {
			return err
		}
		is.slots = append(is.slots, slotRange{from, to})
	}
	m[fields[0]] = is
	return nil
}

// summary returns what all nodes must agree on, and an error if it cannot last. Of the nodes that cannot answer it says
// only that they own nothing.
func (m topology) summary(awake []string) (string, error) {
	var text strings.Builder
	owned := 0
	for _, id := range slices.Sorted(maps.Keys(m)) {
		is := m[id]
		for _, r := range is.slots {
			owned += r.last - r.first + 1
		}
		switch {
		case slices.Contains(awake, id):
			if strings.Contains(is.flags, "fail") || strings.Contains(is.flags, "handshake") {
				return "", fmt.Errorf("%s (%s) with the flags %s", id, is.addr, is.flags)
			}
			if is.primary == "" && len(is.slots) == 0 {
				return "", fmt.Errorf("%s (%s) without slots and without a primary", id, is.addr)
			}
			fmt.Fprintf(&text, "%s at %s, primary %q, slots %v\n", id, is.addr, is.primary, is.slots)
		case len(is.slots) > 0:
			return "", fmt.Errorf("that %s (%s) still owns slots, and it cannot answer", id, is.addr)
		}
	}
	if owned != slots {
		return "", fmt.Errorf("%d slots that have an owner, want %d", owned, slots)
	}
	for _, id := range awake {
		if _, known := m[id]; !known {
			return "", fmt.Errorf("nothing of %s", id)
		}
	}
	return text.String(), nil
}
