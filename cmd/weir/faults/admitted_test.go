package faults_test

import (
	"fmt"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// judgeOver wants that no key was admitted more than its bound in any window. Of a call it is known that it was counted
// between its beginning and its end: only calls that lie in a window as a whole are taken to be in it.
func (s *scene) judgeOver(calls []call) string {
	most := 0.0
	keys := byKey(calls)
	for k, key := range allKeys {
		if key.counts {
			continue
		}
		if after := s.healed + s.row.window; s.row.bounds.converges {
			if n := mostInAWindow(since(keys[k], after), s.row.window); n > int(key.limit) {
				s.errorf("plan %s, user %s: %d hits of %d were admitted within %v, and the fault had ended a window before", key.plan,
					key.user, n, key.limit, s.row.window)
			}
		}
		n, may := mostInAWindow(keys[k], s.row.window), s.row.bounds.states*int(key.limit)
		if s.row.bounds.local {
			may += replicas * part(key)
		}
		most = max(most, float64(n)/float64(key.limit))
		if n > may {
			s.errorf("plan %s, user %s: %d hits were admitted within %v, at most %d are allowed: %d for each of %d states that the "+
				"key may have had, and what replicas admit by themselves", key.plan, key.user, n, s.row.window, may, key.limit,
				s.row.bounds.states)
		}
	}
	bound := fmt.Sprintf("%d L", s.row.bounds.states)
	if s.row.bounds.local {
		bound += " and the local share"
	}
	said := 0.0
	for _, r := range s.replicas {
		if m, err := r.scrape(); err == nil {
			said = max(said, m.sum("weir_over_admission_bound", `window="minute"`))
		}
	}
	return fmt.Sprintf("admitted at most %.2f L of %s (weir says %.2f)", most, bound, said)
}

// part is what a replica admits of a key by itself.
func part(k key) int { return max(1, int(k.limit)/replicas) }

// mostInAWindow returns how many calls were surely admitted in one window, those apart that policy allow let through.
func mostInAWindow(calls []call, window time.Duration) int {
	most := 0
	for i, first := range calls {
		n := 0
		for _, c := range calls[i:] {
			if c.begun-first.begun >= window {
				break
			}
			if c.verdict == ok && c.policy != "allow" && c.ended < first.begun+window {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// judgeDenied wants that a store denies only where the limit may have been used up. What a call without an answer may
// have counted is taken as counted.
func (s *scene) judgeDenied(calls []call) string {
	wrongly, denied := 0, 0
	reach := s.row.window + precision(s.row.window)
	keys := byKey(calls)
	for k, key := range allKeys {
		from, until := s.stepBack(keys[k])
		for _, c := range keys[k] {
			if c.verdict != over || c.policy != "" || key.counts || c.ended >= from && c.begun <= until {
				continue
			}
			earliest := c.begun - reach
			if c.begun > until {
				earliest = max(earliest, from)
			}
			denied++
			used := uint32(0)
			for _, other := range keys[k] {
				if other.countedBy() >= earliest && other.begun <= c.ended && (other.exact() && other.verdict == ok || other.mayCount()) {
					used++
				}
			}
			if used < key.limit {
				wrongly++
				if wrongly == 1 {
					s.errorf("plan %s, user %s was denied after at most %d hits of %d within %v", key.plan, key.user, used,
						key.limit, reach)
				}
			}
		}
	}
	if wrongly > 1 {
		s.errorf("%d denials in all were wrong", wrongly)
	}
	return fmt.Sprintf("%d of %d denials wrong", wrongly, denied)
}

// stepBack returns the time within which a key may be denied for hits that were counted before the servers' clock
// stepped back: they move into the bucket in which the key is next asked for, and count there for a window and a
// precision.
func (s *scene) stepBack(calls []call) (from, until time.Duration) {
	after := since(calls, s.healed)
	if !s.row.bounds.stepsBack || len(after) == 0 {
		return 0, -1
	}
	return s.healed, after[0].ended + s.row.window + 2*precision(s.row.window)
}

// precision is a sliding window's, as the descriptor format has it.
func precision(window time.Duration) time.Duration {
	if window <= 10*time.Second {
		return 50 * time.Millisecond
	}
	return time.Second
}

// judgeCounts compares what the servers have counted with what callers were told: each hit that was answered counts
// once, one without an answer at most once.
func (s *scene) judgeCounts(calls []call) string {
	keys := byKey(calls)
	more, may := 0, 0
	for k, key := range allKeys {
		if !key.counts {
			continue
		}
		told, unsure := 0, 0
		for _, c := range keys[k] {
			switch {
			case c.exact():
				told++
			case c.mayCount():
				unsure++
			}
		}
		var held uint64
		redistest.Eventually(s.T, "the counters can be read after the fault", func() (err error) {
			held, err = s.replicas[0].hits(key.plan, key.user)
			return err
		})
		if extra := int(held) - told; extra > unsure || extra < 0 && !s.row.bounds.forgets {
			s.errorf("user %s: %d hits are counted, %d were answered and %d more may count: none may be lost or count twice",
				key.user, held, told, unsure)
		}
		more, may = more+int(held)-told, may+unsure
	}
	return fmt.Sprintf("counted %+d of 0 to %d unsure", more, may)
}

// judgeLocal wants that no replica admits more than its share of a limit by itself, in any window.
func (s *scene) judgeLocal(calls []call) string {
	if !s.row.bounds.local {
		return ""
	}
	most := 0.0
	keys := byKey(calls)
	for k, key := range allKeys {
		if key.counts {
			continue
		}
		part := part(key)
		for r := range s.replicas {
			var own []call
			for _, c := range keys[k] {
				if c.replica == r && c.policy == "local" {
					own = append(own, c)
				}
			}
			n := mostInAWindow(own, s.row.window)
			most = max(most, float64(n)/float64(part))
			if n > part {
				s.errorf("plan %s, user %s: replica %d admitted %d hits by itself within %v, want at most %d, its share of %d", key.plan,
					key.user, r, n, s.row.window, part, key.limit)
			}
		}
	}
	return fmt.Sprintf("by itself a replica admitted %.2f of its share", most)
}
