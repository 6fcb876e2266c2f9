package backendtest

import (
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend"
)

// forgetful returns a player whose store takes no refunds.
func forgetful(h History) (out []backend.Decision, err error) {
	models := make(map[string]*model)
	for _, a := range h.Asks {
		m := models[string(a.Check.Key)]
		if m == nil {
			m = newModel(rule{limits: a.Check.Limits, charge: a.Check.Charge})
			models[string(a.Check.Key)] = m
		}
		m.follow(a.Check.Limits)
		op, hits := a.Check.Op, a.Check.Hits
		if op == backend.Refund {
			hits = 0
		}
		out = append(out, m.decide(op, hits, a.Now))
	}
	return out, nil
}

func TestAWrongHistoryIsMadeShort(t *testing.T) {
	for _, keys := range []int{1, 16} {
		h, step := History{}, -1
		for round := 8; step < 0; round += 8 { // those rounds have all the keys
			h = newHistory(Walks{Seed: 1, Keys: keys}, round)
			step, _ = h.wrong(forgetful(h))
		}
		said := shorten(h, step, forgetful)
		lines := strings.Split(strings.TrimSpace(said), "\n")
		if len(lines) != 3 || !strings.Contains(lines[1], "count") || !strings.Contains(lines[2], "refund") {
			t.Errorf("a store that takes no refunds is wrong after a count and a refund; a history of %d keys gave\n%s", keys, said)
		}
	}
}
