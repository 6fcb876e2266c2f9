package faults_test

import (
	"fmt"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// judgeOver wants that no key was admitted by stores more than its bound in any window. Of a call it is known that it
// was counted between its beginning and its end: only calls that lie in a window as a whole are taken to be in it.
func (s *scene) judgeOver(calls []call) string {
	most := 0.0
	for k, of := range byKey(calls) {
		key := allKeys[k]
		if key.counts {
			continue
		}
		if s.row.bounds.converges {
			n := mostInAWindow(since(of, s.healed+s.row.window), s.row.window, (*call).exact)
			if n > int(key.limit) {
				s.errorf("plan %s, user %s: %d hits of %d were admitted within %v, and the fault had ended a window before", key.plan,
					key.user, n, key.limit, s.row.window)
			}
		}
		n := mostInAWindow(of, s.row.window, (*call).exact)
		most = max(most, float64(n)/float64(key.limit))
		if n > s.row.bounds.states*int(key.limit) {
			s.errorf("plan %s, user %s: %d hits were admitted within %v, at most %d are allowed for each of %d states that the key "+
				"may have had", key.plan, key.user, n, s.row.window, key.limit, s.row.bounds.states)
		}
	}
	return fmt.Sprintf("admitted at most %.2f L of %d L", most, s.row.bounds.states)
}

// judgeLocal wants that no replica admits more than its share of a limit by itself, in any window.
func (s *scene) judgeLocal(calls []call) string {
	if s.row.bounds.rollout {
		return ""
	}
	for k, of := range byKey(calls) {
		key := allKeys[k]
		if key.counts || key.policy != "local" {
			continue
		}
		for at := range s.replicas {
			part := int(key.limit)
			if !s.blind[at].Load() {
				part = max(1, part/replicas)
			}
			n := mostInAWindow(of, s.row.window, func(c *call) bool { return c.replica == at && c.policy == "local" })
			if n > part {
				s.errorf("plan %s, user %s: replica %d admitted %d hits by itself within %v, want at most %d, its share of %d", key.plan,
					key.user, at, n, s.row.window, part, key.limit)
			}
		}
	}
	return ""
}

// mostInAWindow returns how many calls of a kind were surely admitted in one window.
func mostInAWindow(calls []call, window time.Duration, kind func(*call) bool) int {
	most := 0
	for i, first := range calls {
		n := 0
		for j := i; j < len(calls) && calls[j].begun-first.begun < window; j++ {
			if c := &calls[j]; c.verdict == ok && c.ended < first.begun+window && kind(c) {
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
		for _, c := range keys[k] {
			if c.verdict != over || c.policy != "" || key.counts {
				continue
			}
			denied++
			used := uint32(0)
			for _, other := range keys[k] {
				near := other.countedBy() >= c.begun-reach && other.begun <= c.ended
				if near && (other.exact() && other.verdict == ok || other.mayCount()) {
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
	return fmt.Sprintf("%d of %d denials wrong", wrongly, denied)
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
		process.Eventually(s.T, "the counters can be read after the fault", func() (err error) {
			held, err = s.replicas[0].Counted(key.plan, key.user)
			return err
		})
		if extra := int(held) - told; extra > unsure || extra < 0 && !s.row.bounds.losesState {
			s.errorf("user %s: %d hits are counted, %d were answered and %d more may count: none may be lost or count twice",
				key.user, held, told, unsure)
		}
		more, may = more+int(held)-told, may+unsure
	}
	return fmt.Sprintf("counted %+d of 0 to %d unsure", more, may)
}
